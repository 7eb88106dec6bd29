// Draws with OpenChemLib, in a thread of its own that can be ended: see draw.js.

import { Molecule } from "./openchemlib.js";
import { changes, correspondence, graph } from "./changes.js";
import { untangled } from "./rings.js";

/** Larger than any drawing; what is not needed is cut off. So all have bonds of the same length. */
const PAPER = 8000;
const MOST_ATOMS = 250;
const CHANGED = "var(--changed, #fcd794)";
/**
 * Colours of atoms by OpenChemLib's; others have the colour of text. These are for light paper, those
 * for dark paper are in page.css. All have a contrast of 4.5 with what is changed.
 */
const COLOURS = {
  "rgb(48,80,248)": "var(--nitrogen, #2450c8)", "rgb(255,13,13)": "var(--oxygen, #b02428)", "rgb(144,224,80)": "var(--halogen, #176b35)",
  "rgb(31,240,31)": "var(--halogen, #176b35)", "rgb(255,128,0)": "var(--phosphorus, #944600)", "rgb(198,198,44)": "var(--sulphur, #735200)",
  "rgb(166,41,41)": "var(--bromine, #8f3a1c)", "rgb(148,0,148)": "var(--iodine, #7d2fa6)",
};
/** Drawings are made smaller by it; no text of one has fewer pixels. OpenChemLib's digits would. */
const SCALE = 0.85, SMALLEST_TEXT = 11;
const OPTIONS = { autoCrop: true, autoCropMargin: 8, factorTextSize: 1.05, suppressChiralText: true, suppressESR: true, suppressCIPParity: true, noStereoProblem: true };

function read(smiles) {
  const molecule = Molecule.fromSmiles(smiles);
  if (molecule.getAllAtoms() > MOST_ATOMS) throw new RangeError(`${molecule.getAllAtoms()} atoms`);
  for (let atom = 0; atom < molecule.getAllAtoms(); atom++) molecule.setAtomMapNo(atom, 0, false);
  return untangled(molecule);
}

const turned = new Map(); // what `laidAs` made

/** The first molecule above another; null if it cannot be drawn: then the other lies by itself. */
function modelOf([smiles, ...above]) {
  try {
    return laidAs(smiles, above);
  } catch {
    return null;
  }
}

/** A molecule whose atoms lie as in the first one above it, which lies as in the next one. */
function laidAs(smiles, above) {
  const key = [smiles, ...above].join(" ");
  if (!turned.has(key)) {
    const molecule = read(smiles);
    const model = above.length && modelOf(above);
    if (model) turn(molecule, model, correspondence(graph([model]), graph([molecule])));
    turned.set(key, molecule);
  }
  return turned.get(key);
}

/**
 * SVG of molecules, and of the product that they give, if there is one, with the changes in colour.
 * above: the products of the steps that this one is for, by which its product is turned.
 */
function draw(texts, product, above) {
  const parts = texts.map(read);
  if (product === null) return { molecules: parts.map((part) => svg(part)), product: null };
  const made = laidAs(product, above);
  const [before, after] = [graph(parts), graph([made])];
  const from = correspondence(before, after); // by atom of the product
  const to = []; // by atom of the reactants
  from.forEach((other, atom) => { if (other !== undefined) to[other] = atom; });
  const marked = changes(before, after, to, true);
  let first = 0; // of a part's atoms among all
  const molecules = parts.map((part) => {
    turn(part, made, to.slice(first, first + part.getAllAtoms()));
    const drawing = svg(part, marked, first);
    first += part.getAllAtoms();
    return drawing;
  });
  return { molecules, product: svg(made, changes(after, before, from, false)) };
}

/** Turn a molecule, and turn it over, so that its atoms lie as in another; to: its atoms there. */
function turn(part, made, to) {
  const pairs = [...to.entries()].filter(([, there]) => there !== undefined);
  if (pairs.length < 2) return;
  const centred = (molecule, atoms) => {
    const points = atoms.map((atom) => [molecule.getAtomX(atom), molecule.getAtomY(atom)]);
    const middle = [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);
    return points.map(([x, y]) => [x - middle[0], y - middle[1]]);
  };
  const [ours, theirs] = [centred(part, pairs.map(([here]) => here)), centred(made, pairs.map(([, there]) => there))];
  // Sums of products of complex numbers: their length says how well a turn fits, their angle is it.
  const [best] = [1, -1].map((mirror) => {
    const sum = ours.reduce(([re, im], [x, y], index) => {
      const [u, v] = [theirs[index][0], theirs[index][1]];
      return [re + x * u + mirror * y * v, im + x * v - mirror * y * u];
    }, [0, 0]);
    return { mirror, length: Math.hypot(...sum), angle: Math.atan2(sum[1], sum[0]) };
  }).sort((one, other) => other.length - one.length);
  if (best.length < 1e-6) return;
  const [cosine, sine] = [Math.cos(best.angle), Math.sin(best.angle)];
  for (let atom = 0; atom < part.getAllAtoms(); atom++) {
    const [x, y] = [part.getAtomX(atom), best.mirror * part.getAtomY(atom)];
    part.setAtomX(atom, cosine * x - sine * y);
    part.setAtomY(atom, sine * x + cosine * y);
  }
  if (best.mirror === 1) return;
  const [up, down] = [Molecule.cBondTypeUp, Molecule.cBondTypeDown];
  for (let bond = 0; bond < part.getAllBonds(); bond++) {
    const type = part.getBondType(bond);
    if (type === up || type === down) part.setBondType(bond, type === up ? down : up);
  }
}

/** A drawing; marked: atoms and pairs of them, the molecule's numbered from `first`, to be coloured. */
function svg(molecule, marked = new Set(), first = 0) {
  const lines = molecule.toSVG(PAPER, PAPER, "x", OPTIONS).split("\n");
  const [, x, y, width, height] = /viewBox="([\d.-]+) ([\d.-]+) ([\d.-]+) ([\d.-]+)"/.exec(lines[0]);
  const isMarked = (line) => {
    const [, kind, number] = /id="x:(Atom|Bond):(\d+)"/.exec(line);
    const ends = [0, 1].map((end) => first + molecule.getBondAtom(end, Number(number)));
    return marked.has(kind === "Atom" ? first + Number(number) : ends.join("-"));
  };
  const places = lines.filter((line) => line.includes('class="event"') && isMarked(line)).map((line) => line.replace(/id=.*?class="event" /, "").replace(/stroke-width="8"/, 'stroke-width="10"').replace('opacity="0"', ""));
  const drawn = lines.filter((line) => /^\s*<(text|line|polygon|circle|path|ellipse|rect)/.test(line) && !line.includes('class="event"'));
  const coloured = drawn.join("\n").replace(/rgb\([\d,]+\)/g, (colour) => COLOURS[colour] ?? "currentColor").replace(/font-size="([\d.]+)"/g, (_, size) => `font-size="${Math.max(SMALLEST_TEXT / SCALE, size)}"`);
  const marks = places.length ? `<g class="changed" fill="${CHANGED}" stroke="${CHANGED}">${places.join("")}</g>` : "";
  return `<svg xmlns="http://www.w3.org/2000/svg" class="drawing" width="${Math.ceil(SCALE * width)}" height="${Math.ceil(SCALE * height)}" viewBox="${x} ${y} ${width} ${height}" font-family="sans-serif" stroke-linecap="round" stroke-linejoin="round">${marks}${coloured}</svg>`;
}

/** A molecule's drawing; "" if it is none to OpenChemLib, or too large. */
function alone(smiles) {
  try {
    return svg(read(smiles));
  } catch {
    return "";
  }
}

/** A drawing whose bonds can be clicked: data-bond has their atoms, by their places in the SMILES. */
function withBonds(smiles) {
  const molecule = read(smiles);
  const places = molecule.toSVG(PAPER, PAPER, "x", OPTIONS).split("\n").filter((line) => /id="x:Bond/.test(line)).map((line) => {
    const ends = [0, 1].map((end) => molecule.getBondAtom(end, Number(/x:Bond:(\d+)/.exec(line)[1]))).sort((one, other) => one - other);
    return line.replace(/id=.*?class="event" /, `class="bond" tabindex="0" data-bond="${ends.join("-")}" `).replace(/stroke-width="8"/, 'stroke-width="14"').replace('opacity="0"', "");
  });
  return svg(molecule).replace(/<\/svg>\s*$/, `<g stroke="currentColor">${places.join("")}</g></svg>`);
}

function answerTo({ texts, product, above, layout, bonds }) {
  if (bonds !== undefined) return { bonds: withBonds(bonds) };
  if (layout !== undefined) return { layout: untangled(Molecule.fromSmiles(layout)).getIDCodeAndCoordinates() };
  try {
    return draw(texts, product, above);
  } catch {
    return { molecules: texts.map(alone), product: product && alone(product) };
  }
}

self.onmessage = ({ data }) => {
  try {
    postMessage(answerTo(data));
  } catch { // no molecule to OpenChemLib
    postMessage({});
  }
};
draw(["CO"], "CO", []); // so that the first drawing takes no longer than others
postMessage({}); // it is ready
