"""The molecule of a salt: which of its parts are counter-ions, by a stated list."""

from __future__ import annotations

from functools import lru_cache

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from molspec.text.molecules import read_smiles, write_smiles
from molspec.text.smiles import is_one_word, quiet, with_dots

#: Longer texts are left unchanged: no model reads as much, and RDKit would take seconds.
LONGEST = 1000

#: Counter-ions by what the molecule beside them must be, without stereo and, where that is
#: possible, without charge. Of any molecule: metals and water.
_COUNTER_IONS = {
    "any": """
        O [Li+] [Na+] [K+] [Rb+] [Cs+] [Mg+2] [Ca+2] [Sr+2] [Ba+2] [Zn+2] [Al+3] [Ag+] [Fe+2] [Fe+3]
        [Mn+2] [Bi+3]
    """,
    # Mineral acids and sulfonic acids.
    "base": """
        F Cl Br I OS(=O)(=O)O OP(=O)(O)O O[N+](=O)[O-] OCl(=O)(=O)=O F[B-](F)(F)F OC(=O)O
        F[P-](F)(F)(F)(F)F F[Sb-](F)(F)(F)(F)F NS(=O)(=O)O CS(=O)(=O)O CCS(=O)(=O)O OCCS(=O)(=O)O
        OS(=O)(=O)CCS(=O)(=O)O OS(=O)(=O)c1ccccc1 Cc1ccc(S(=O)(=O)O)cc1 OS(=O)(=O)c1ccc(Cl)cc1
        OS(=O)(=O)c1ccc2ccccc2c1 OS(=O)(=O)c1cccc2ccccc12 OS(=O)(=O)c1cccc2c(S(=O)(=O)O)cccc12
        CC1(C)C2CCC1(CS(=O)(=O)O)C(=O)C2 OS(=O)(=O)NC1CCCCC1 COS(=O)(=O)O CCOS(=O)(=O)O
        CCCCCCCCCCCCOS(=O)(=O)O OS(=O)(=O)C(F)(F)F O=C1NS(=O)(=O)c2ccccc12
    """,
    # Carboxylic acids: trifluoroacetic, tartaric, citric, fumaric and maleic, malic, ...; anilines,
    # which are hardly bases, react with some.
    "amine": """
        OC(=O)C(F)(F)F OC(=O)C(O)C(O)C(=O)O OC(=O)CC(O)(CC(=O)O)C(=O)O OC(=O)C=CC(=O)O
        OC(=O)CC(O)C(=O)O OC(=O)CCC(=O)O OC(=O)C(=O)O OC(=O)CC(=O)O OC(=O)CCCC(=O)O
        OC(=O)CCCCC(=O)O CC(O)C(=O)O
        OC(=O)C(O)c1ccccc1 OC(=O)C(O)C(O)C(O)C(O)CO OC(=O)C(O)C(O)C(O)C(O)C(O)CO
        OC(=O)C(O)C(O)C(OC1OC(CO)C(O)C(O)C1O)C(O)CO OC(=O)C(O)C(O)C(O)C(O)C(=O)O
        NC(CCC(=O)O)C(=O)O NC(CC(=O)O)C(=O)O O=C1CCC(C(=O)O)N1 OC(=O)CNC(=O)c1ccccc1
        OC(=O)c1ccccc1O OC(=O)c1cc(O)ccc1O OC(=O)c1ccc2ccccc2c1O OC(=O)C(Cl)(Cl)Cl
        OC(=O)c1cc2ccccc2c(Cc2c(O)c(C(=O)O)cc3ccccc23)c1O OC(=O)c1cc(=O)[nH]c(=O)[nH]1
        O=C1OC(C(O)CO)C(O)=C1O CCCCCCCCCCCCCCCCCC(=O)O CCCCCCCCCCCCCCCC(=O)O CCCCCCCCCCCC(=O)O
        CCCCCCCCC=CCCCCCCCC(=O)O OC(=O)C(OC(=O)c1ccccc1)C(OC(=O)c1ccccc1)C(=O)O
        Cc1ccc(C(=O)OC(C(=O)O)C(OC(=O)c2ccc(C)cc2)C(=O)O)cc1
    """,
    # Tromethamine, meglumine, choline, arginine, lysine, ..., and quaternary ammonium.
    "acid": """
        NC(CO)(CO)CO CNCC(O)C(O)C(O)C(O)CO C[N+](C)(C)CCO NC(CCCNC(=N)N)C(=O)O NCCCCC(N)C(=O)O
        NCCCC(N)C(=O)O OCCNCCO OCCN(CCO)CCO OCCN1CCCC1 CCN(CC)CC CCN(C(C)C)C(C)C
        c1ccc(CNCCNCc2ccccc2)cc1 C1CCC(NC2CCCCC2)CC1 CCN(CC)CCOC(=O)c1ccc(N)cc1 C[N+](C)(C)C
        CC[N+](CC)(CC)CC CCCC[N+](CCCC)(CCCC)CCCC C[N+](C)(C)Cc1ccccc1
    """,
    # What is also a usual reactant counts as a counter-ion only where it is written as an ion.
    "opposite ion": """
        CC(=O)O OC=O CCC(=O)O OC(=O)c1ccccc1 OC(=O)c1cccnc1 OCC(=O)O N CN CCN CNC CCNCC CC(C)(C)N
        NCCO NCCN C1CNCCN1 C1COCCN1 c1ccncc1 NCc1ccccc1
    """,
}
#: What a molecule must have, beside the charge, for a counter-ion to be one.
_NEEDED = {
    "base": "[$([NX3;!$(N[C,S,P]=[O,S]);!$(N[!#6;!#1]);!$(NC#N)]),$([NX2]=C[NX3]),nX2]",
    "amine": "[$([NX3;!$(N[C,S,P]=[O,S]);!$(N[!#6;!#1]);!$(NC#N);!$(Nc)]),$([NX2]=C[NX3]),nX2]",
    "acid": "[$([OH][C,S,P]=O),$([OH]c),$([nH]),$([NH,NH2]S=O),$([NH]C=O),$([SH])]",
}


class _Part:
    """A molecule of a text."""

    def __init__(self, molecule: Chem.Mol) -> None:
        self.charge = Chem.GetFormalCharge(molecule)
        self.neutral = rdMolStandardize.Uncharger().uncharge(molecule)
        self.is_organic = any(atom.GetAtomicNum() == 6 for atom in molecule.GetAtoms())
        flat = _flat(self.neutral)
        #: What must be beside it, if it may be a counter-ion. Hydroxide is a reagent, not water.
        self.beside = None if flat == "O" and self.charge else _counter_ions().get(flat)

    def is_beside(self, main: _Part) -> bool:
        """Whether it is a counter-ion of `main`."""
        if self.beside in (None, "any"):
            return self.beside is not None
        if self.beside == "opposite ion":
            return self.charge * main.charge < 0
        sign = -1 if self.beside == "acid" else 1
        return sign * main.charge > 0 or main.neutral.HasSubstructMatch(_needed(self.beside))


def main_component(smiles: str) -> tuple[str, tuple[str, ...]]:
    """Remove counter-ions and water, and neutralise the molecule that is left.

    Returns it with the removed molecules, each once: also itself if it is there twice. A single
    molecule, an inorganic salt, a text that is not SMILES, and one longer than LONGEST are returned
    unchanged.

    Raises ValueError for several molecules that are not a salt of one.
    """
    if len(smiles) > LONGEST or not is_one_word(smiles) or "." not in (smiles := with_dots(smiles)):
        return smiles, ()
    with quiet():
        whole = read_smiles(smiles)
        if whole is None:
            return smiles, ()
        found = Chem.GetMolFrags(whole, asMols=True)
        parts = {write_smiles(each): _Part(each) for each in found}
        # A counter-ion that is alone with metals, as in sodium acetate, is the molecule.
        mains = [each for each in parts if parts[each].beside is None]
        mains = mains or [each for each in parts if parts[each].is_organic]
        if len(found) < 2 or not mains:
            return smiles, ()
        main = mains[0]
        if len(parts) == 1:
            return main, (main,)
        others = tuple(sorted(parts.keys() - {main}))
        if not all(parts[each].is_beside(parts[main]) for each in others):
            raise ValueError(
                f"{', '.join(parts)}: {len(parts)} molecules that are not a salt, expected one; a "
                "model of products predicts what they give; keep salts to decode them as they stand"
            )
        parent = write_smiles(parts[main].neutral)
        if read_smiles(parent) is None:  # RDKit's neutral form of an anion may have no valence
            parent = main
    return parent, others


@lru_cache(1)
def _counter_ions() -> dict[str, str]:
    """What must be beside each counter-ion, by its SMILES without charge and stereo."""
    uncharge = rdMolStandardize.Uncharger().uncharge
    return {
        _flat(uncharge(read_smiles(each))): beside
        for beside, listed in _COUNTER_IONS.items()
        for each in listed.split()
    }


def _flat(molecule: Chem.Mol) -> str:
    """Its SMILES without stereo, isotopes and atom maps."""
    bare = Chem.Mol(molecule)
    for atom in bare.GetAtoms():
        atom.SetAtomMapNum(0)
    return Chem.MolToSmiles(bare, isomericSmiles=False)


@lru_cache
def _needed(what: str) -> Chem.Mol:
    return Chem.MolFromSmarts(_NEEDED[what])
