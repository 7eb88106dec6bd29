"""Bounds every text before RDKit reads it: the only place that says how much RDKit is given.

RDKit writes a chain by recursion, 470 bytes of the stack an atom. It finds all shortest rings of a
molecule, and their number can double with every ring: forty atoms may have millions. In an aromatic
ring it tries each unknown atom with and without a double bond, so its time doubles with each. No
search of RDKit ends at a limit of time.
"""

import re
from collections import Counter

from rdkit import Chem

#: Atoms of a text. 4,400 in a chain, of branches or not, end a process in a stack of 2 MB, which
#: threads have where stacks are unlimited, and 17,000 in one of 8 MB. Of so many, RDKit reads and
#: writes any text within two seconds. PEG 50,000 has fewer, and so has a protein of 500 residues.
MOST_ATOMS = 4000
#: Characters of a text: an atom has ten with its isotope, charge and map.
_LONGEST = 10 * MOST_ATOMS
_ATOM = re.compile(r"\[[^\[\]]*\]|Br|Cl|[A-Za-z*]")
#: What a file of structures says of its numbers of atoms and bonds, before RDKit has room for them.
_CONTINUED = re.compile(r"-[ \t]*\r?\nM  V30 ")
_COUNTS = re.compile(r"^M  V30 COUNTS[ \t]+\+?(\d+)[ \t]+\+?(\d+)", re.MULTILINE | re.IGNORECASE)
#: Independent rings of which RDKit finds at most 2**_FEW, and more than any molecule has that a
#: model reads: C240 has 121.
_FEW, _MOST = 15, 150
#: Shortest rings that RDKit finds in half a second; pairs of atoms that are counted in a second.
_MOST_SHORTEST, _MOST_BESIDE = 50_000, 1_000_000
#: Unknown atoms of a text with aromatic ones: RDKit reads twelve in a tenth of a second.
_MOST_UNKNOWN = 12
#: Standard InChI, whose other layers let the library of 2026 end the process; its layer of bonds.
_INCHI = re.compile(r"InChI=1S/[\w.]+(/[chqpbtmsi][^/]*)*", re.ASCII)
#: Atoms of InChI but hydrogen, whose tautomers RDKit lists in seconds.
_MOST_INCHI = 80
_CONNECTIONS = re.compile(r"/c([^/]*)")
_CLOSURES = re.compile(r"\[[^\[\]]*\]|%\d\d|%\(\d+\)|\d")


def too_long(smiles: str) -> str | None:
    """The reason why RDKit is not given a text of so many characters or atoms; None if it is."""
    if len(smiles) <= MOST_ATOMS:
        return None
    if len(smiles) > _LONGEST:
        return f"{len(smiles):,} characters, more than {_LONGEST:,}"
    return _too_many(sum(1 for _ in _ATOM.finditer(smiles)))


def too_large(smiles: str) -> str | None:
    """The reason why RDKit is not given a text: `too_long`, or its rings; None if it is."""
    if reason := too_long(smiles):
        return reason
    if _has_few_rings(smiles) and smiles.count("*") + smiles.count("#0") <= _MOST_UNKNOWN:
        return None
    molecule = Chem.MolFromSmiles(smiles, sanitize=False)
    return None if molecule is None else molecule_too_large(molecule)


def _has_few_rings(smiles: str) -> bool:
    """Whether RDKit finds at most 2**_FEW shortest rings, by the closures of each part of a text.

    A part that a closure or a branch joins to another one is left to RDKit.
    """
    closures = len(_closures(smiles))
    if closures <= 2 * _FEW or closures > 2 * _MOST:
        return closures <= 2 * _FEW
    most = 0
    for part in smiles.split("."):
        numbers = Counter(_closures(part))
        if part.count("(") != part.count(")") or any(count % 2 for count in numbers.values()):
            return False
        most += 1 << numbers.total() // 2
    return most <= 1 << _FEW


def _closures(smiles: str) -> list[str]:
    return [each for each in _CLOSURES.findall(smiles) if each[0] != "["]


def block_too_large(block: str) -> str | None:
    """The same of a file's structure or reaction, by the numbers that it says; see `too_large`."""
    counts = _COUNTS.findall(_CONTINUED.sub("", block))
    return _too_many(*(sum(int(each[at][:9]) for each in counts) for at in (0, 1)))


def inchi_too_large(text: str) -> str | None:
    """The same of standard InChI, whose rings RDKit looks for at once; any other is refused."""
    if len(text) > _LONGEST or not _INCHI.fullmatch(text):
        return "not standard InChI"
    atoms = 0
    for part in text.split("/")[1].split("."):
        count = re.match(r"\d*", part)
        found = re.findall(r"([A-Z][a-z]?)(\d{0,9})", part)
        own = sum(int(number or 1) for element, number in found if element != "H")
        atoms += own * int((count and count[0][:9]) or 1)
    if atoms > _MOST_INCHI:
        return f"InChI of {atoms:,} atoms, more than {_MOST_INCHI}"
    for part in ";".join(_CONNECTIONS.findall(text)).split(";"):
        numbers = re.findall(r"(\d+)(\*?)", part)
        places = [number for number, star in numbers if not star]  # not of equal parts
        if (rings := len(places) - len({*places})) > _FEW:
            return f"{rings} rings in InChI, more than {_FEW}"
    return None


def molecule_too_large(molecule: Chem.Mol) -> str | None:
    """The same of a molecule, before RDKit looks at its rings."""
    atoms = [*molecule.GetAtoms()]
    unknown = sum(not atom.GetAtomicNum() for atom in atoms)
    is_aromatic = any(bond.GetIsAromatic() for bond in molecule.GetBonds())
    is_aromatic = is_aromatic or any(atom.GetIsAromatic() for atom in atoms)
    if unknown > _MOST_UNKNOWN and is_aromatic:
        return f"{unknown} unknown atoms beside aromatic ones, more than {_MOST_UNKNOWN}"
    if reason := _too_many(len(atoms), molecule.GetNumBonds()):
        return reason
    rings = molecule.GetNumBonds() - len(atoms) + len(Chem.GetMolFrags(molecule))
    if rings > _MOST:
        return f"{rings} rings, more than {_MOST}"
    if rings <= _FEW:
        return None
    longest = max(map(len, Chem.GetSSSR(molecule)), default=0)
    if longest * len(atoms) > _MOST_BESIDE:
        return f"a ring of {longest} atoms among {len(atoms)} atoms and other rings"
    if _shortest_rings(molecule) > _MOST_SHORTEST:
        return f"more than {_MOST_SHORTEST} shortest rings"
    return None


def _too_many(atoms: int, bonds: int = 0) -> str | None:
    is_fine = max(atoms, bonds - _MOST) <= MOST_ATOMS
    return None if is_fine else f"{max(atoms, bonds):,} atoms or bonds, more than {MOST_ATOMS:,}"


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
