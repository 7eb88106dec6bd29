"""Aligned pairs of SMILES, by their atom maps.

A transformer copies most easily if source and target begin at the same atom. Zhong et al. 2022
(Chem. Sci., 10.1039/D2SC02763A) begin a product at a random atom and its reactants at the same one:
root-aligned SMILES.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from random import Random

from rdkit import Chem

from molspec.text.molecules import read_smiles, write_smiles, written_order
from molspec.text.smiles import is_one_word, quiet
from molspec.text.tokens import has_dative_bond


class UnfitReactionError(ValueError):
    """A reaction without a pair; the message is the reason in a few words."""


@dataclass(frozen=True, eq=False)
class Molecule:
    """A molecule whose atoms are in the order of its canonical SMILES.

    `map_numbers` has the atom map number of every atom, 0 if it has none.
    """

    smiles: str
    rdkit: Chem.Mol
    map_numbers: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Molecule:
        """Read SMILES with or without atom maps. Raises UnfitReactionError."""
        if not is_one_word(text):
            raise UnfitReactionError("blanks or other characters that are not of SMILES")
        with quiet():
            rdkit = read_smiles(text)
            if rdkit is None or rdkit.GetNumAtoms() == 0:
                raise UnfitReactionError("not a molecule to RDKit")
            map_numbers = [atom.GetAtomMapNum() for atom in rdkit.GetAtoms()]
            for atom in rdkit.GetAtoms():
                atom.SetAtomMapNum(0)
            # Twice: removing the maps can change which stereo marks are needed.
            for _ in range(2):
                smiles = write_smiles(rdkit)
                order = written_order(rdkit)
                if has_dative_bond(smiles):
                    raise UnfitReactionError("a dative bond")
                rdkit = read_smiles(smiles)
                if rdkit is None or rdkit.GetNumAtoms() != len(order):
                    raise UnfitReactionError("not a molecule to RDKit without its atom maps")
                map_numbers = [map_numbers[atom] for atom in order]
        return cls(smiles, rdkit, tuple(map_numbers))

    def write_from(self, atom: int | None) -> tuple[str, list[int]]:
        """SMILES that begins at `atom`, canonical if None; and its atoms in the order written."""
        if atom is None:
            return self.smiles, list(range(len(self.map_numbers)))
        return write_smiles(self.rdkit, atom), written_order(self.rdkit)

    @cached_property
    def symmetry_classes(self) -> list[int]:
        """A number for every atom, the same for symmetric atoms."""
        return list(Chem.CanonicalRankAtoms(self.rdkit, breakTies=False))


def align(map_numbers: Iterable[Set[int]], molecules: Sequence[Molecule]) -> str:
    """Write `molecules` aligned with a text whose atoms have `map_numbers`.

    An atom of the text has the map numbers of all atoms to which it may correspond; 0 is none. Each
    molecule begins at its atom that comes first in the text, and molecules are in the order of
    these atoms. Molecules without such an atom come last, canonical and sorted.
    """
    waiting = dict(enumerate(molecules))
    written: list[str] = []
    for numbers in map_numbers:
        for index, molecule in list(waiting.items()):
            number = next((n for n in molecule.map_numbers if n and n in numbers), None)
            if number is not None:
                atom = molecule.map_numbers.index(number)
                written.append(molecule.write_from(atom)[0])
                del waiting[index]
        if not waiting:
            break
    return ".".join([*written, *sorted(molecule.smiles for molecule in waiting.values())])


def product_to_reactants(
    product: Molecule, reactants: Sequence[Molecule], variant_count: int, random: Random
) -> list[tuple[str, str]]:
    """Root-aligned pairs (product, reactants): the canonical one, then random roots.

    Without common map numbers only the canonical pair. At most `variant_count` pairs, fewer if
    there are few roots or several give the same source.
    """
    numbers = {number for molecule in reactants for number in molecule.map_numbers if number}
    aligned = not numbers.isdisjoint(product.map_numbers)
    atom_count = len(product.map_numbers)
    random_count = min(variant_count - 1, atom_count) if aligned else 0
    pairs: dict[str, str] = {}
    for root in (None, *random.sample(range(atom_count), random_count)):
        source, order = product.write_from(root)
        if source not in pairs:
            pairs[source] = align(({product.map_numbers[atom]} for atom in order), reactants)
    return list(pairs.items())


def reactants_to_product(
    reactants: Sequence[Molecule], products: Sequence[Molecule], variant_count: int, random: Random
) -> list[tuple[str, str]]:
    """Pairs (reactants and reagents, product): the canonical source, then random ones.

    The product begins at the first atom of the source that survives in it. A map has any of several
    symmetric atoms, for example of either side of an anhydride: the first of them counts. A random
    source has its molecules in random order, each from a random root.
    """
    canonical = sorted(reactants, key=lambda molecule: molecule.smiles)
    numbers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for molecule in canonical:
        for symmetry, number in zip(molecule.symmetry_classes, molecule.map_numbers, strict=True):
            numbers[molecule.smiles, symmetry].add(number)
    pairs: dict[str, str] = {}
    for variant in range(variant_count):
        order = canonical if variant == 0 else random.sample(canonical, len(canonical))
        written, places = [], []
        for molecule in order:
            root = None if variant == 0 else random.randrange(len(molecule.map_numbers))
            text, atoms = molecule.write_from(root)
            written.append(text)
            places += [numbers[molecule.smiles, molecule.symmetry_classes[atom]] for atom in atoms]
        pairs.setdefault(".".join(written), align(places, products))
    return list(pairs.items())
