"""Bounds the rings of a text before RDKit looks for them, which may take it forever.

RDKit finds all shortest rings of a molecule, and their number can double with every ring: forty
atoms may have millions. In an aromatic ring it tries each unknown atom with and without a double
bond, so its time doubles with each. No search of RDKit ends at a limit of time.
"""

from __future__ import annotations

import re

from rdkit import Chem

#: Independent rings of which RDKit finds at most 2**_FEW, and more than any molecule has that a
#: model reads: C240 has 121.
_FEW, _MOST = 15, 150
#: Shortest rings that RDKit finds in less than half a second.
_MOST_SHORTEST = 50_000
#: Unknown atoms of a text with aromatic ones: RDKit reads twelve in a tenth of a second.
_MOST_UNKNOWN = 12
_UNKNOWN, _AROMATIC = re.compile(r"\*|\[\d*#0\b"), re.compile("[bcnops:]")
_CLOSURES = re.compile(r"\[[^\]]*\]|%\d\d|%\(\d+\)|\d")


def too_many_rings(smiles: str) -> str | None:
    """The reason why RDKit would not read the rings of a text in time; None if it would."""
    if "*" in smiles or "#0" in smiles:
        unknown = len(_UNKNOWN.findall(smiles))
        if unknown > _MOST_UNKNOWN and _AROMATIC.search(smiles):
            return f"{unknown} unknown atoms beside aromatic ones, more than {_MOST_UNKNOWN}"
    if len(smiles) <= 2 * _FEW:
        return None
    closures = sum(1 for each in _CLOSURES.finditer(smiles) if each[0][0] != "[")
    if closures <= 2 * _FEW:
        return None
    if closures > 2 * _MOST:
        return f"{closures // 2} rings, more than {_MOST}"
    molecule = Chem.MolFromSmiles(smiles, sanitize=False)  # the caller is quiet
    if molecule is not None and _shortest_rings(molecule) > _MOST_SHORTEST:
        return f"more than {_MOST_SHORTEST} shortest rings"
    return None


def _shortest_rings(molecule: Chem.Mol) -> int:
    """A bound on the rings that are as short as those of a basis (Vismara, 1997, section 4).

    Each is two shortest paths from its last atom, with others before it, to the two ends of a bond
    or to two neighbours of an atom.
    """
    sizes = [len(ring) for ring in Chem.GetSSSR(molecule)]
    longest = max(sizes, default=0) // 2
    neighbours = [[n.GetIdx() for n in atom.GetNeighbors()] for atom in molecule.GetAtoms()]
    total = 0
    for last in range(len(neighbours)):
        distance, paths, layer = {last: 0}, {last: 1}, [last]
        for depth in range(1, longest + 2):
            further: dict[int, list[int]] = {}
            for atom in layer:
                for other in neighbours[atom]:
                    if other < last and distance.get(other, depth) == depth:
                        further.setdefault(other, []).append(paths[atom])
            for atom in layer:
                same = (other for other in neighbours[atom] if distance.get(other) == depth - 1)
                total += sum(paths[atom] * paths[other] for other in same if other < atom)
            for other, ways in further.items():
                distance[other], paths[other] = depth, sum(ways)
                total += (paths[other] ** 2 - sum(way * way for way in ways)) // 2
            layer = list(further)
            if total > _MOST_SHORTEST:
                return total
    return total
