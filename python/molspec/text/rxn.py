"""Reactions with coordinates: RXN and RDF."""

from collections.abc import Iterable, Iterator
from itertools import chain

from rdkit import Chem
from rdkit.Chem.rdChemReactions import ReactionFromRxnBlock

from molspec.text import bounds, molecules, smiles

#: Characters of a reaction in memory. The rest of a longer one is not stored.
_LONGEST = 1 << 24


def read_rxn(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The reaction SMILES and the title of each reaction; "" for one that RDKit cannot read."""
    block, size = list[str](), 0
    for line in chain(lines, ("$",)):
        begins = line.startswith("$RXN")
        if begins or (line.startswith("$") and not line.startswith("$MOL")):
            if block:
                yield _smiles("".join(block)), block[1].strip() if block[1:] else ""
            block, size = [], 0
        if (block or begins) and (size := size + len(line)) <= _LONGEST:
            block.append(line)


def _smiles(block: str) -> str:
    with smiles.quiet():
        try:
            if bounds.block_too_large(block):
                return ""
            reaction = ReactionFromRxnBlock(block, strictParsing=False)
            sides = (reaction.GetReactants(), reaction.GetAgents(), reaction.GetProducts())
            for molecule in chain(*sides):
                if bounds.molecule_too_large(molecule):
                    return ""
                Chem.SanitizeMol(molecule)
        except (ValueError, RuntimeError):
            return ""
        return ">".join(".".join(map(molecules.write_smiles, side)) for side in sides)
