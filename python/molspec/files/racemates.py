"""Racemates and enantiomers that are not known, of extended SMILES: "C[C@H](O)CC |&1:1|"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING

from molspec.common.console import quoted
from molspec.text.tokens import extension_of, plain_smiles

if TYPE_CHECKING:
    from rdkit import Chem

#: The most forms of a racemate that are listed.
_MOST = 16
#: The places of a group's atoms.
_PLACES = re.compile(r"[|,][&o]\d*:(\d+(?:,\d+)*)")
#: The most characters of a racemate.
_LONGEST = 1000


@dataclass(frozen=True)
class Racemate:
    """The meaning of extended SMILES; all other SMILES are canonical.

    whole: with its extension. flat: without the configuration of its centres.
    decoded: what is decoded in its place: a centre alone in its group has no configuration, several
        have the drawn one, which says how they lie to each other.
    forms: what it may be, each group as drawn or turned; also as in `decoded`.
    """

    whole: str
    flat: str
    decoded: str
    forms: tuple[str, ...]


def read_racemate(text: str) -> Racemate | None:
    """The racemate of extended SMILES; None for another text.

    Raises ValueError if the extension is cut off, as by a comma of CSV without quotes, if it does
    not fit its molecule, or if the text is too long.
    """
    if "|" not in text or not (extension := extension_of(text).strip()):
        return None
    if not extension.endswith("|"):
        raise ValueError(f"its extension {quoted(extension)} is cut off: expected it in quotes")
    smiles = plain_smiles(text.partition("|")[0]).strip()
    if (count := len(smiles) + len(extension)) > _LONGEST:  # RDKit's time grows with the square
        fault = f"{count:,} characters with its extension {quoted(extension)}"
        raise ValueError(f"{fault}: expected at most {_LONGEST}")
    return _racemate(smiles, extension)


@lru_cache(1 << 12)
def _racemate(smiles: str, extension: str) -> Racemate | None:
    from rdkit import Chem

    from molspec.text import quiet, read_smiles

    whole = f"{smiles} {extension}"
    with quiet():
        plain, molecule = read_smiles(smiles, sanitize=False), read_smiles(whole)
        if plain is None:
            return None
        last = max(map(int, ",".join(["0", *_PLACES.findall(extension)]).split(",")))
        if molecule is None or last >= plain.GetNumAtoms():  # RDKit drops a group that is behind
            raise ValueError(f"its extension {quoted(extension)} does not fit its molecule")
        groups = [
            [atom.GetIdx() for atom in group.GetAtoms()]
            for group in molecule.GetStereoGroups()
            if group.GetGroupType() != Chem.StereoGroupType.STEREO_ABSOLUTE
        ]
        if not groups and re.search(r"[|,]r[|,]", extension):
            groups = [[at.GetIdx() for at in molecule.GetAtoms() if int(at.GetChiralTag())]]
        groups = [group for group in groups if group]
        pure = _forms(molecule, groups)
        alone = [group[0] for group in groups if len(group) == 1]
        decoded = _forms(molecule, [each for each in groups if len(each) > 1], alone)
        (flat,) = _forms(molecule, [], [centre for group in groups for centre in group])
    if "" in (*pure, *decoded, flat) or len({*pure}) == 1:  # not a molecule; a meso form
        return None
    return Racemate(whole, flat, decoded[0], tuple(dict.fromkeys((*pure, *decoded))))


def without_other_extension(text: str) -> str:
    """The text, without its extension unless that is of a racemate, or cut off."""
    try:
        return text if "|" not in text or read_racemate(text) else plain_smiles(text)
    except ValueError:
        return text


def _forms(
    molecule: Chem.Mol, groups: Sequence[Sequence[int]], without: Iterable[int] = ()
) -> list[str]:
    """The molecule as it is drawn, and with each group's centres turned; `without` have none."""
    from rdkit import Chem

    from molspec.text import canonicalise, write_smiles

    found = []
    for turned in islice(product((False, True), repeat=len(groups)), _MOST):
        form = Chem.RWMol(molecule)
        form.SetStereoGroups([])
        for group, is_turned in zip(groups, turned, strict=True):
            for centre in group if is_turned else ():
                form.GetAtomWithIdx(centre).InvertChirality()
        for centre in without:
            form.GetAtomWithIdx(centre).SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
        found.append(canonicalise(write_smiles(form)) or "")
    return found
