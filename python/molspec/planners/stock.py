"""The stock: purchasable molecules, their suppliers' names and prices."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from molspec.common.tables import COMPRESSED, open_bytes
from molspec.files import open_source
from molspec.files.sources import QueryFile
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
_KEYS = INCHIKEY.pattern.encode()
#: Columns of prices; the first one counts.
_PRICES = ("price", "ppg", "price_per_gram", "cost")


class Stock(dict[str, str]):
    """Names by what molecules match by, "" if one has none; asked for by canonical SMILES.

    Unless they match exactly, a name has the SMILES, or the InChIKey, of what is bought.

    An organic salt also serves as its molecule without counter-ions, which is named after it: then
    the name has the SMILES of what is bought.

    prices: as the stock has them, by what molecules match by.
    entries: the number of entries read; bad_entries: the number of those that are not molecules;
        first_bad: the number and text of the first of them.
    """

    entries = 0
    bad_entries = 0
    first_bad = ""
    match: Match = "exact"

    def __init__(self, molecules: Iterable[str] = ()) -> None:
        super().__init__(dict.fromkeys(molecules, ""))
        self.prices: dict[str, str] = {}

    def __contains__(self, smiles: object) -> bool:
        """Whether a molecule that matches is for sale."""
        return super().__contains__(self.key(smiles) if isinstance(smiles, str) else smiles)

    def get(self, smiles: str, default: Any = None) -> Any:
        """The name of what is bought for a molecule."""
        return super().get(self.key(smiles), default)

    def key(self, smiles: str) -> str:
        """What the molecule matches by."""
        return smiles if self.match == "exact" else _key(smiles, self.match)

    def price(self, smiles: str) -> str:
        """The price of what is bought for a molecule, "" if it has none."""
        return self.prices.get(self.key(smiles), "")

    def offer(self, smiles: str) -> str | None:
        """The name and the price of what is bought, None if it is not for sale."""
        if smiles not in self:
            return None
        return ", ".join(filter(None, (self.get(smiles), self.price(smiles))))

    def add(self, smiles: str, name: str, price: str) -> None:
        """Add a molecule unless one that matches has a name or a price already."""
        key = self.key(smiles)
        if not super().get(key) and key not in self.prices:
            self[key] = name
            if price:
                self.prices[key] = price


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


def read_stock(paths: Path | Sequence[Path], match: Match | None = None) -> Stock:
    """Read a stock: SMILES and names, .csv, .tsv, .sdf or .json, .gz and .xz too; .hdf5 of pandas.

    paths: a file, or several, which are one stock.
    match: by default exact, or by InChIKey if the first entry is one.

    Raises ValueError if no entry of a file is a molecule or a table has no column of SMILES,
    OSError if a file cannot be read.
    """
    stock = Stock()
    served: dict[str, tuple[str, str]] = {}
    for path in [paths] if isinstance(paths, Path) else paths:
        _read(path, match, stock, served)
    for main, about in served.items():
        if main not in stock:
            stock.add(main, *about)
    return stock


def _read(
    path: Path, match: Match | None, stock: Stock, served: dict[str, tuple[str, str]]
) -> None:
    """Add a file's entries to a stock, and to `served` the molecules that its salts serve as."""
    usable = stock.entries - stock.bad_entries
    with _opened(path) as source:
        for number, query in enumerate(source.queries(optional=_PRICES), start=1):
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
            canonical = smiles if is_usable else canonicalise(smiles)
            if canonical is not None:
                named = ", ".join(filter(None, (query.name, canonical)))
                price = "".join(query.columns)
                stock.add(canonical, query.name if stock.match == "exact" else named, price)
                if "." in canonical and (main := _main(canonical)) is not None:
                    served.setdefault(main, (named, price))
            else:
                stock.bad_entries += 1
                bad = f"entry {number} of {path.name}, {smiles or query.error!r}"
                stock.first_bad = stock.first_bad or bad
    if stock.entries - stock.bad_entries == usable:
        bad = f"; {stock.first_bad} is none to RDKit" if stock.bad_entries else ""
        raise ValueError(f"{path}: expected molecules for sale, found none{bad}")


@contextmanager
def _opened(path: Path) -> Iterator[QueryFile]:
    """The stock as a file of queries."""
    endings = [ending for ending in map(str.lower, path.suffixes) if ending not in COMPRESSED]
    if endings[-1:] in ([".json"], [".jsonl"], [".ndjson"]):
        yield QueryFile(str(path), "csv", _lines_of_json(path, endings[-1] != ".json"))
    elif endings[-1:] in ([".h5"], [".hdf5"]):
        yield QueryFile(str(path), "smi", iter(_keys_of_hdf5(path)))
    else:
        with open_source(str(path)) as source:
            yield source


def _lines_of_json(path: Path, is_lines: bool) -> Iterator[str]:
    """A table of a list of molecules or of objects, as ASKCOS' buyables, or of a name by molecule.

    is_lines: whether each line is one of the list.

    Raises ValueError, naming the file, for other JSON.
    """
    try:
        with open_bytes(path) as data:
            values = [json.loads(each) for each in data] if is_lines else json.load(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if isinstance(values, dict):
        values = [
            {"smiles": smiles, ("price" if isinstance(about, int | float) else "name"): about}
            for smiles, about in values.items()
        ]
    if not isinstance(values, list):
        raise ValueError(f"{path}: expected a list of molecules, or their names by molecule")
    rows = [row if isinstance(row, dict) else {"smiles": row} for row in values or [""]]
    text = StringIO()
    table = csv.DictWriter(text, dict.fromkeys(name for row in rows for name in row))
    table.writeheader()
    table.writerows(rows)
    return iter(text.getvalue().splitlines(keepends=True))


def _keys_of_hdf5(path: Path) -> list[str]:
    """The InChIKeys of AiZynthFinder's stocks, which pandas writes; no pickle in it is run.

    Raises ValueError if h5py is not installed, or the file has no such table.
    """
    try:
        import h5py
    except ImportError as error:
        raise ValueError(f"{path} is HDF5, which h5py reads: pip install h5py") from error
    try:
        with h5py.File(path) as file:
            group = file.get("table", {})
            names = [each for each in group if re.fullmatch("table|block.*_values", each)]
            values = [group[name][...] for name in names]
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path}: {error}") from error
    texts = (bytes(part) for each in values for part in (each if each.dtype == object else [each]))
    keys = [key.decode() for text in texts for key in re.findall(_KEYS, text)]
    if not keys:
        raise ValueError(f"{path}: expected a table 'table' of pandas with InChIKeys")
    return keys


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
