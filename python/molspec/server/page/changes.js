// What a reaction changes: which atoms of the product correspond to atoms of the reactants, and the
// atoms and bonds that one side has alone. A heuristic without search: its time is bounded.

/** Two atoms are compared by their surroundings, so many bonds far. */
const FARTHEST = 8;
/** Atoms of one element are at least so alike. */
const LEAST = -0.5;

/** Molecules of OpenChemLib as one list of atoms, each with its bonds. */
export function graph(molecules) {
  const atoms = [];
  for (const molecule of molecules) {
    const first = atoms.length;
    for (let atom = 0; atom < molecule.getAllAtoms(); atom++) {
      atoms.push({ element: molecule.getAtomicNo(atom), hydrogens: molecule.getAllHydrogens(atom), bonds: [] });
    }
    for (let bond = 0; bond < molecule.getAllBonds(); bond++) {
      const ends = [0, 1].map((end) => first + molecule.getBondAtom(end, bond));
      const order = molecule.isDelocalizedBond(bond) || molecule.isAromaticBond(bond) ? 1.5 : molecule.getBondOrder(bond);
      ends.forEach((end, side) => atoms[end].bonds.push({ order, to: ends[1 - side] }));
    }
  }
  return atoms;
}

/** For each atom, a name of its surroundings at every radius; equal surroundings, equal names. */
function surroundings(atoms, names) {
  const name = (text) => names.get(text) ?? names.set(text, names.size).get(text);
  const radii = [atoms.map((atom) => name(`${atom.element}`))];
  for (let radius = 1; radius <= FARTHEST; radius++) {
    const inner = radii.at(-1);
    radii.push(atoms.map((atom, index) => name(`${inner[index]}:${atom.bonds.map(({ order, to }) => `${order}-${inner[to]}`).sort()}`)));
  }
  return radii;
}

/**
 * How readily an atom stays behind: of two oxygens that one of the product may be, an anhydride's or
 * an ester's goes rather than an acid's, this rather than an alcohol's, and this than a phenol's.
 */
function leaving(atoms, { element, hydrogens, bonds }) {
  if (element !== 8) return 0;
  const orders = bonds.map(({ to }) => atoms[to].bonds.map(({ order }) => order));
  const acyls = orders.filter((each) => each.includes(2)).length;
  if (hydrogens) return acyls ? 0.3 : orders.flat().includes(1.5) ? 0.1 : 0.2;
  const isSmallRing = bonds.some(({ to }) => atoms[to].bonds.some((each) => bonds.some((other) => other.to === each.to)));
  return bonds.length < 2 ? 0.15 : acyls ? 0.25 + 0.1 * acyls : isSmallRing ? 0.25 : 0;
}

/**
 * For each atom of the product, the atom of the reactants that corresponds to it, or undefined.
 * Atoms with the largest equal surroundings correspond; from them on, their neighbours do. Other
 * elements than carbon follow their neighbours, unless their surroundings tell them apart.
 */
export function correspondence(reactants, product) {
  const names = new Map();
  const [ours, theirs] = [surroundings(product, names), surroundings(reactants, names)];
  const alike = product.map((atom, index) => reactants.map((other, there) => {
    let radius = -1;
    while (radius < FARTHEST && ours[radius + 1][index] === theirs[radius + 1][there]) radius++;
    return radius < 0 ? -Infinity : radius + (atom.hydrogens === other.hydrogens ? 0.5 : 0);
  }));
  const same = new Array(product.length).fill(undefined);
  const taken = new Set();

  /** The best pair of unmatched atoms, by a value of more than -Infinity. */
  function best(pairs, valueOf) {
    let [found, most] = [undefined, -Infinity];
    for (const [atom, other] of pairs) {
      if (same[atom] !== undefined || taken.has(other)) continue;
      const value = valueOf(atom, other);
      if (value > most) [found, most] = [[atom, other], value];
    }
    return found;
  }
  const clear = (atom, other) => (alike[atom][other] >= (product[atom].element === 6 ? 0 : 2) ? alike[atom][other] : -Infinity);
  const seed = (atom, other) => (alike[atom][other] >= (product[atom].element === 6 ? 1 : 2) ? alike[atom][other] : -Infinity);
  /** The bonds that are kept, less what leaves. */
  const kept = (atom, other) => {
    const bonds = product[atom].bonds.map(({ order, to }) => {
      const there = reactants[other].bonds.find((each) => each.to === same[to]);
      return there === undefined ? 0 : there.order === order ? 1 : 0.6;
    });
    return bonds.reduce((sum, each) => sum + each, 0) - leaving(reactants, reactants[other]) + 0.01 * alike[atom][other];
  };
  const all = product.flatMap((_, atom) => reactants.map((_, other) => [atom, other]));
  const beside = []; // pairs of neighbours of those that correspond
  for (;;) {
    const [atom, other] = best(beside, clear) ?? best(all, seed) ?? best(beside, kept) ?? best(all, (...pair) => alike[pair[0]][pair[1]]) ?? [];
    if (atom === undefined) break;
    same[atom] = other;
    taken.add(other);
    for (const { to } of product[atom].bonds) for (const { to: there } of reactants[other].bonds) beside.push([to, there]);
  }
  return same;
}

/**
 * The atoms of one side that the other lacks, and the bonds, as "1-2" and "2-1".
 * A bond between two atoms that the other side lacks counts unless `leaves`; its order counts. Of a
 * bond that only becomes aromatic, or ceases to be, the ends count that change otherwise too.
 */
export function changes(atoms, others, same, leaves) {
  const marked = new Set();
  const differs = (index) => {
    const [own, other] = [atoms[index], others[same[index]]];
    return own.hydrogens !== other?.hydrogens || own.bonds.length !== other.bonds.length;
  };
  atoms.forEach((atom, index) => {
    if (same[index] === undefined) marked.add(index);
    for (const { order, to } of atom.bonds) {
      if (leaves && same[index] === undefined && same[to] === undefined) continue;
      const other = others[same[index]]?.bonds.find((each) => each.to === same[to]);
      if (other?.order === order) continue;
      const ends = other && (order === 1.5 || other.order === 1.5) ? [index, to].filter(differs) : [index, to];
      for (const end of ends) marked.add(end);
      if (ends.length === 2) marked.add(`${index}-${to}`);
    }
  });
  return marked;
}
