// Large rings, which OpenChemLib may draw over each other: laid out as a regular polygon, from which
// it draws all else outward.

import { Molecule } from "./openchemlib.js";

const LARGE = 9; // atoms of a ring
const MOST_WAYS = 4; // to lay a molecule out
/** How far the ends of a double bond across a ring, which is trans in it, leave the circle; in bonds. */
const ZIGZAG = 0.25;
const AS_PLACED = { keepMarkedAtomCoordinates: true, keepHydrogens: true };

/** A molecule as it is, or laid out so that less of it overlaps. */
export function untangled(molecule) {
  molecule.ensureHelperArrays(Molecule.cHelperParities);
  const rings = largeRings(molecule);
  if (!rings.length || !tangles(molecule)) return molecule;
  const shown = identity(molecule);
  const ways = rings.slice(0, MOST_WAYS).map((ring) => fromPolygon(molecule, ring)).filter((way) => identity(way) === shown);
  return [molecule, ...ways].map((way) => ({ way, count: tangles(way) })).reduce((best, each) => (each.count < best.count ? each : best)).way;
}

/** What a drawing shows, with its stereo bonds. */
const identity = (molecule) => Molecule.fromMolfile(molecule.toMolfile()).getIDCode();

const atomsOf = (molecule, bond) => [0, 1].map((end) => molecule.getBondAtom(end, bond));
const pointOf = (molecule, atom) => [molecule.getAtomX(atom), molecule.getAtomY(atom)];
const every = (count) => Array.from({ length: count }, (_, index) => index);

/** The shortest ring of each bond that is in no small one, as atoms in order. */
function largeRings(molecule) {
  const found = new Map();
  for (const bond of every(molecule.getAllBonds())) {
    if (!molecule.isRingBond(bond) || molecule.isSmallRingBond(bond)) continue;
    const [start, end] = atomsOf(molecule, bond);
    const before = new Map([[start, null]]);
    for (const atom of before.keys()) {
      for (const index of every(molecule.getConnAtoms(atom))) {
        const next = molecule.getConnAtom(atom, index);
        if (molecule.getConnBond(atom, index) !== bond && !before.has(next)) before.set(next, atom);
      }
    }
    const ring = [];
    for (let atom = end; atom !== null; atom = before.get(atom)) ring.push(atom);
    if (ring.length >= LARGE) found.set([...ring].sort().join(), ring);
  }
  return [...found.values()];
}

/** On which side of the line through two points a third one lies: 1 or -1. */
const side = ([x, y], [u, v], [p, q]) => Math.sign((u - x) * (q - y) - (v - y) * (p - x));

/** A copy whose ring is a regular polygon; trans double bonds in it stay so. */
function fromPolygon(molecule, ring) {
  const way = molecule.getCompactCopy();
  way.ensureHelperArrays(Molecule.cHelperParities);
  const at = (index) => ring[index % ring.length];
  const radii = ring.map(() => 0.5 / Math.sin(Math.PI / ring.length));
  ring.forEach((atom, index) => {
    const bond = every(way.getConnAtoms(atom)).find((each) => way.getConnAtom(atom, each) === at(index + 1));
    if (way.getConnBondOrder(atom, bond) !== 2) return;
    const [before, one, other, after] = [ring.length - 1, 0, 1, 2].map((step) => pointOf(molecule, at(index + step)));
    if (side(one, other, before) === side(one, other, after)) return;
    radii[index] -= ZIGZAG;
    radii[(index + 1) % ring.length] += ZIGZAG;
  });
  const unit = molecule.getAverageBondLength();
  ring.forEach((atom, index) => {
    const angle = (2 * Math.PI * index) / ring.length;
    way.setAtomX(atom, unit * radii[index] * Math.cos(angle));
    way.setAtomY(atom, unit * radii[index] * Math.sin(angle));
    way.setAtomMarker(atom, true);
  });
  way.inventCoordinates(AS_PLACED);
  way.removeAtomMarkers();
  way.ensureHelperArrays(Molecule.cHelperParities);
  return way;
}

/** How many pairs of atoms lie on each other, bonds cross, and bonds are of another length. */
function tangles(molecule) {
  const points = every(molecule.getAllAtoms()).map((atom) => pointOf(molecule, atom));
  const bonds = every(molecule.getAllBonds()).map((bond) => atomsOf(molecule, bond));
  const distance = (one, other) => Math.hypot(points[one][0] - points[other][0], points[one][1] - points[other][1]);
  const lengths = bonds.map(([one, other]) => distance(one, other));
  const unit = [...lengths].sort((one, other) => one - other)[lengths.length >> 1];
  const pairs = (list, isBad) => list.reduce((sum, one, index) => sum + list.slice(index + 1).filter((other) => isBad(one, other)).length, 0);
  const parts = ([a, b], [c, d]) => side(points[a], points[b], points[c]) * side(points[a], points[b], points[d]) < 0;
  const cross = (one, other) => !one.some((atom) => other.includes(atom)) && parts(one, other) && parts(other, one);
  return pairs([...points.keys()], (one, other) => distance(one, other) < unit / 2) + pairs(bonds, cross) + lengths.filter((each) => Math.abs(each / unit - 1) > 0.25).length;
}
