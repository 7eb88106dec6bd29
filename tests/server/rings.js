// Molecules with a large ring: "over" if OpenChemLib draws atoms over each other, and after `untangled`
// "apart" if none are and the drawing shows the same molecule.
async () => {
  const [{ Molecule }, { untangled }] = await Promise.all(["openchemlib", "rings"].map((name) => import(new URL(`page/${name}.js`, location.href))));
  const isOver = (molecule) => {
    const atoms = [...Array(molecule.getAllAtoms()).keys()].map((atom) => [molecule.getAtomX(atom), molecule.getAtomY(atom)]);
    return atoms.some(([x, y], index) => atoms.slice(index + 1).some(([u, v]) => Math.hypot(x - u, y - v) < molecule.getAverageBondLength() / 2));
  };
  const shown = (molecule) => Molecule.fromMolfile(molecule.toMolfile()).getIDCode();
  return [
    "CCC(C)C1NC(=O)C(Cc2ccc(O)cc2)NC(=O)C(N)CSSCC(NC(=O)C(CC(N)=O)NC(=O)C(CCC(N)=O)NC1=O)C(=O)N1CCCC1C(=O)NC(CC(C)C)C(=O)NCC(N)=O", // oxytocin
    "C[C@H]1CCC[C@@]2([C@@H](O2)C[C@H](OC(=O)C[C@@H](C(C(=O)[C@@H]([C@H]1O)C)(C)C)O)/C(=C/C3=CSC(=N3)C)/C)C", // epothilone B
    "C[C@@H]1C[C@@H]([C@@H]2[C@H](C[C@H]([C@@](O2)(C(=O)C(=O)N3CCCC[C@H]3C(=O)O[C@@H]([C@@H]([C@H](CC(=O)[C@@H](/C=C(/C1)\\C)CC=C)O)C)/C(=C/[C@@H]4CC[C@H]([C@@H](C4)OC)O)/C)O)C)OC)OC", // tacrolimus
  ].map((smiles) => {
    const drawn = Molecule.fromSmiles(smiles);
    const [before, was] = [isOver(drawn), shown(drawn)];
    const after = untangled(drawn);
    return `${before ? "over" : ""} ${!isOver(after) && shown(after) === was ? "apart" : ""}`;
  });
}
