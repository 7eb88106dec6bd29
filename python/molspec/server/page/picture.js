// A route as one drawing: what is bought at the left, what is made at the right, steps numbered.

import { percent } from "./dom.js";
import { drawn } from "./draw.js";
import { offer } from "./routes.js";
import { chosenOf, partsOf, reactions } from "./work.js";

const TEXT = 12, LINE = 15; // pixels
const GAP = 26, ARROW = 118, EDGE = 14; // between rows, between columns, around all
const HEAD = 7; // of an arrow
const LETTERS = 30; // of a line of text
const ABOVE = 24; // an arrow, for its number
const LETTER = 7.2; // pixels of a letter at most

const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

/** Text in lines, at blanks if there are any. */
function lines(text) {
  const made = [];
  for (const word of text.split(" ")) {
    for (let rest = word; rest; rest = rest.slice(LETTERS)) {
      const piece = rest.slice(0, LETTERS);
      if (made.length && `${made.at(-1)} ${piece}`.length <= LETTERS && rest === word) made[made.length - 1] += ` ${piece}`;
      else made.push(piece);
    }
  }
  return made;
}

/** A box: its drawings, or SMILES, beside each other, and the lines below. */
function box(drawings, smiles, sale, step) {
  const shown = drawings.map((svg, index) => {
    const size = /width="([\d.]+)" height="([\d.]+)"/.exec(svg);
    const text = size ? [] : lines(partsOf(smiles)[index] ?? smiles);
    return size ? { svg, width: Number(size[1]), height: Number(size[2]) } : { text, width: widest(text), height: LINE * text.length };
  });
  const label = sale === null ? ["not in stock"] : sale ? lines(offer(sale) || "in stock") : [];
  const top = Math.max(...shown.map((each) => each.height));
  const width = Math.max(shown.reduce((sum, each) => sum + each.width, 0), widest(label));
  return { shown, label, isLacked: sale === null, top, width, height: top + LINE * label.length, step };
}

const widest = (texts) => Math.max(0, ...texts.map((text) => LETTER * text.length));

/** The tree of boxes of a step, each with its `below`, its depth and the height of all below it. */
function tree(step, own, numbers, depth = 0) {
  const answer = chosenOf(step);
  const pictures = answer?.canonical ? drawn(step, answer) : { molecules: [] };
  const queried = pictures.queried ?? partsOf(step.smiles).map(() => "");
  own ??= box(queried, step.smiles, undefined, step);
  const partners = step.forward && depth ? queried.slice(1) : []; // of the molecule of the step before
  const over = partners.length ? box(partners, partsOf(step.smiles).slice(1).join("."), undefined) : null;
  const below = (answer?.canonical ? answer.molecules : []).map((molecule, index) => {
    const next = molecule.step && chosenOf(molecule.step);
    const drawings = next?.canonical ? drawn(molecule.step, next).queried.slice(0, 1) : [pictures.molecules[index]];
    const place = box(drawings, molecule.smiles, molecule.step ? undefined : step.forward ? molecule.sale ?? undefined : molecule.sale, molecule.step);
    return molecule.step ? tree(molecule.step, place, numbers, depth + 1) : { ...place, below: [], depth: depth + 1, tall: place.height };
  });
  const inner = below.reduce((sum, each) => sum + each.tall, 0) + GAP * Math.max(0, below.length - 1);
  const above = over ? 2 * (over.height + ABOVE) : 0; // the arrow is in the middle
  return { ...own, below, over, depth, tall: Math.max(own.height, inner, above), inner, forward: step.forward, share: answer, number: numbers.get(step) };
}

const all = (place) => [place, ...place.below.flatMap(all)];

/** Give every box its place: columns by depth, rows by the heights. */
function arrange(top) {
  const places = all(top);
  const deepest = Math.max(...places.map((each) => each.depth));
  const widths = Array.from({ length: deepest + 1 }, (_, depth) => Math.max(...places.filter((each) => each.depth === depth).map((each) => each.width)));
  const order = top.forward ? [...widths.keys()] : [...widths.keys()].reverse();
  const left = [];
  let x = EDGE;
  for (const depth of order) {
    left[depth] = x;
    const partners = places.map((each) => (each.depth === depth && each.over ? each.over.width + 3 * GAP : 0));
    x += widths[depth] + Math.max(ARROW, ...partners);
  }
  const put = (place, y) => {
    place.x = left[place.depth] + (widths[place.depth] - place.width) / 2;
    place.y = y + (place.tall - place.height) / 2;
    place.middle = place.y + place.top / 2;
    let next = y + (place.tall - place.inner) / 2;
    for (const each of place.below) {
      put(each, next);
      next += each.tall + GAP;
    }
  };
  put(top, EDGE);
  return { places, width: Math.max(...order.map((depth) => left[depth] + widths[depth])) + EDGE, height: top.tall + 2 * EDGE, left, widths };
}

function boxView(place) {
  let x = place.x + (place.width - place.shown.reduce((sum, each) => sum + each.width, 0)) / 2;
  const text = (line, index, middle, y, kind) => `<text class="words ${kind}" x="${middle}" y="${y + LINE * index}">${escaped(line)}</text>`;
  const parts = place.shown.map((each) => {
    const y = place.y + (place.top - each.height) / 2;
    const view = each.svg
      ? each.svg.replace("<svg ", `<svg x="${x}" y="${y}" `)
      : each.text.map((line, index) => text(line, index, x + each.width / 2, y + TEXT, "smiles")).join("");
    x += each.width;
    return view;
  });
  const kind = place.isLacked ? "lacked" : "sale";
  const label = place.label.map((line, index) => text(line, index, place.x + place.width / 2, place.y + place.top + TEXT, kind));
  return `<g${place.step ? ` data-step="${place.step.id}"` : ""}>${parts.join("")}${label.join("")}</g>`;
}

/** The arrow of a step, between a box and those below it, with its number and probability. */
function arrowView(place, { left, widths }) {
  if (!place.below.length) return "";
  const depth = place.depth + 1;
  // The boxes below lie left of the arrow, unless the route goes forward.
  const isLeft = left[depth] < left[place.depth];
  const near = isLeft ? place.x - 6 : place.x + place.width + 6;
  const join = isLeft ? left[depth] + widths[depth] + 22 : left[depth] - 22;
  const far = place.below.map((each) => [isLeft ? each.x + each.width + 6 : each.x - 6, each.middle]);
  const branches = far.map(([edge, middle]) => `M${edge} ${middle}H${join}V${place.middle}`);
  // A step forward makes what is below, any other one is made from it.
  const heads = (place.forward ? far : [[near, place.middle]]).map(([x, y]) => `M${x} ${y}l${-HEAD * Math.sign(x - join)} -4v8z`);
  const label = (isLeft ? join + left[place.depth] : left[place.depth] + widths[place.depth] + join) / 2;
  const over = place.over && { ...place.over, x: label - place.over.width / 2, y: place.middle - ABOVE - place.over.height };
  return `<path class="shaft" d="${branches.join("")}M${join} ${place.middle}H${near}"/><path class="head" d="${heads.join("")}"/>${over ? boxView(over) : ""}
<text class="words number" x="${label}" y="${place.middle - 8}">Step ${place.number}</text><text class="words share" x="${label}" y="${place.middle + 18}">${percent(place.share.log_prob)}</text>`;
}

const STYLE = `
.words { font: ${TEXT}px system-ui, "Segoe UI", Roboto, sans-serif; text-anchor: middle; fill: currentColor; }
.words.number { font-weight: 600; } .words.sale { fill: var(--good, #1a6b3c); } .words.lacked { fill: var(--bad, #a3262a); }
.shaft { fill: none; stroke: currentColor; stroke-opacity: .55; stroke-width: 1.3; } .head { fill: currentColor; fill-opacity: .75; }`;

/** SVG of a route. paper: with a white ground, to be saved. */
export function picture(route, paper = false) {
  const numbers = new Map(reactions(route).map(({ step, number }) => [step, number]));
  const placed = arrange(tree(route, null, numbers));
  const { places, width, height } = placed;
  const whole = `<svg xmlns="http://www.w3.org/2000/svg" class="whole" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"${paper ? ' color="#1c2530"' : ""}>
<style>${STYLE}</style>${paper ? '<rect width="100%" height="100%" fill="#fff"/>' : ""}
${places.map((place) => boxView(place) + arrowView(place, placed)).join("\n")}
</svg>
`;
  return paper ? whole.replace(/var\([^,]+, (#\w+)\)/g, "$1") : whole; // programs that know no variables read it
}
