"""The stock: purchasable molecules, and their suppliers' names."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from molspec.files import open_source
from molspec.text import canonicalise, quiet, read_smiles, write_smiles
from molspec.text.salts import main_component
from molspec.text.smiles import INCHIKEY

#: Carbon with hydrogen or carbon: of sodium acetate, not of sodium carbonate.
_ORGANIC = Chem.MolFromSmarts("[#6;!H0,$([#6]~[#6])]")
#: How molecules match: by canonical SMILES; by InChIKey; by its part without stereo; by RDKit's
#: canonical tautomer.
Match = Literal["exact", "inchikey", "no-stereo", "tautomer"]
#: The length of its part of atoms and bonds.
_SKELETON = 14


class Stock(dict[str, str]):
    """Names by what molecules match by, "" if one has none; asked for by canonical SMILES.

    Unless they match exactly, a name has the SMILES, or the InChIKey, of what is bought.

    An organic salt also serves as its molecule without counter-ions, which is named after it: then
    the name has the SMILES of what is bought.

    entries: the number of entries read; bad_entries: the number of those that are not molecules;
        first_bad: the number and text of the first of them.
    """

    entries = 0
    bad_entries = 0
    first_bad = ""
    match: Match = "exact"

    def __contains__(self, smiles: object) -> bool:
        """Whether a molecule that matches is for sale."""
        return super().__contains__(self.key(smiles) if isinstance(smiles, str) else smiles)

    def get(self, smiles: str, default: Any = None) -> Any:
        """The name of what is bought for a molecule."""
        return super().get(self.key(smiles), default)

    def key(self, smiles: str) -> str:
        """What the molecule matches by."""
        return smiles if self.match == "exact" else _key(smiles, self.match)

    def add(self, smiles: str, name: str, bought: str) -> None:
        """Add a molecule unless one that matches has a name already."""
        named = name if self.match == "exact" else ", ".join(filter(None, (name, bought)))
        self[self.key(smiles)] = self.get(smiles) or named


@lru_cache(1)
def _tautomers() -> Any:
    """RDKit's tautomers; a centre that takes part in none keeps its configuration."""
    tautomers = rdMolStandardize.TautomerEnumerator()
    tautomers.SetRemoveSp3Stereo(False)
    tautomers.SetRemoveBondStereo(False)
    return tautomers


@lru_cache(1 << 16)
def _key(smiles: str, match: Match) -> str:
    """What a molecule matches by; its SMILES if RDKit finds nothing better."""
    if INCHIKEY.fullmatch(smiles):
        return smiles[:_SKELETON] if match == "no-stereo" else smiles
    with quiet():
        if (molecule := read_smiles(smiles)) is None:
            return smiles
        if match == "tautomer":
            return write_smiles(_tautomers().Canonicalize(molecule))
        key = str(Chem.MolToInchiKey(molecule))  # type: ignore[no-untyped-call]
    return (key[:_SKELETON] if match == "no-stereo" else key) or smiles


def read_stock(path: Path, match: Match | None = None) -> Stock:
    """Read a stock from a file of queries: SMILES and names, .csv, .tsv or .sdf; .gz and .xz too.

    match: by default exact, or by InChIKey if the first entry is one.

    Raises ValueError if no entry is a molecule or a table has no column of SMILES, OSError if the
    file cannot be read.
    """
    stock = Stock()
    served: dict[str, str] = {}
    with open_source(str(path)) as source:
        for number, query in enumerate(source.queries(), start=1):
            smiles = query.smiles.strip()
            if not smiles and query.error is None:
                continue
            is_key = bool(INCHIKEY.fullmatch(smiles))
            if not stock.entries:
                stock.match = match or ("inchikey" if is_key else "exact")
                if is_key and stock.match in ("exact", "tautomer"):
                    raise ValueError(
                        f"match is {match!r}: expected 'inchikey' or 'no-stereo', {path} has "
                        "InChIKeys"
                    )
            stock.entries += 1
            is_usable = is_key and stock.match in ("inchikey", "no-stereo")
            canonical = smiles if is_usable else None if query.error else canonicalise(smiles)
            if canonical is not None:
                stock.add(canonical, query.name, canonical)
                if "." in canonical and (main := _main(canonical)) is not None:
                    served.setdefault(main, ", ".join(filter(None, (query.name, canonical))))
            else:
                stock.bad_entries += 1
                stock.first_bad = stock.first_bad or f"entry {number}, {smiles or query.error!r}"
    if not stock:
        bad = f"; {stock.first_bad} is none to RDKit" if stock.bad_entries else ""
        raise ValueError(f"{path}: expected molecules for sale, there is none{bad}")
    for main, name in served.items():
        if main not in stock:
            stock[stock.key(main)] = name
    return stock


def _main(canonical: str) -> str | None:
    """The organic molecule of a salt; None if there is none."""
    try:
        main, removed = main_component(canonical)
    except ValueError:  # a kit of several molecules is not a source of one
        return None
    if not removed:
        return None
    given = map(read_smiles, (canonical, main))  # HCN is organic, but not KCN
    organic = (each is not None and each.HasSubstructMatch(_ORGANIC) for each in given)
    return main if all(organic) else None
