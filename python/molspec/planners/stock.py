"""The stock: purchasable molecules, their suppliers' names and prices."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rdkit import Chem

from molspec.common import console, fields
from molspec.common.tables import COMPRESSED, open_bytes
from molspec.files import Query, open_source
from molspec.files.racemates import Racemate, read_racemate
from molspec.files.sources import QueryFile
from molspec.planners.common import COMMON, molecules
from molspec.text import canonicalise, quiet, read_smiles, write_smiles
from molspec.text.molecules import canonical_tautomer
from molspec.text.salts import main_component
from molspec.text.smiles import INCHIKEY

#: Names that the objects of a JSON stock may have.
_MOST_COLUMNS = 1000
#: Carbon with hydrogen or carbon: of sodium acetate, not of sodium carbonate.
_ORGANIC = Chem.MolFromSmarts("[#6;!H0,$([#6]~[#6])]")
#: How molecules match: by canonical SMILES; by InChIKey; by its part without stereo; by RDKit's
#: canonical tautomer.
Match = Literal["exact", "inchikey", "no-stereo", "tautomer"]
#: The length of an InChIKey's part of atoms and bonds; the next part without stereo and isotopes.
_SKELETON = 14
_NO_ISOTOPES = "-UHFFFAOY"
_KEYS = INCHIKEY.pattern.encode()
#: Columns of prices; the first one counts.
_PRICES = ("price", "ppg", "price_per_gram", "cost")
#: A price that is a number: with a currency and a unit, groups of thousands, a decimal comma.
_PRICE = re.compile(
    r"(?:[A-Z]{3}|[^\w\s.,-])?\s*(?P<whole>\d{1,3}(?:[, ']\d{3})+|\d+)(?:[.,](?P<part>\d+))?"
    r"\s*(?:[A-Za-z]{3}|[^\w\s])?(?:\s*/\s*\w+)?"
)
_GROUPS = str.maketrans("", "", ", '")
#: The options of the stock's columns, by those of any file.
_COLUMNS = {
    "column": "stock_column",
    "id_column": "stock_id_column",
    "copy_column": "stock_price_column",
}


class Stock(dict[str, str]):
    """Names of the molecules for sale, "" if one has none, by canonical SMILES or InChIKey.

    The exact molecule is bought if it is for sale; otherwise the cheapest one that matches. Of
    several entries of a molecule the cheapest counts. A price that is not a number is the dearest.

    An organic salt also serves as its molecule without counter-ions, which is named after it.

    A racemate, or an unknown enantiomer, serves as its molecule without configuration, and as each
    form of it that no other entry is.

    prices: as the stock has them; salts: what is bought for a molecule of a salt or a racemate;
    racemic: without configuration the forms that are sold so alone; all by molecule.
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
        self.salts: dict[str, str] = {}
        self.racemic: dict[str, str] = {}
        #: The molecules that match loosely, by what they match by: of several the cheapest.
        self._matching: dict[str, str] = {}

    def __contains__(self, smiles: object) -> bool:
        """Whether a molecule that matches is for sale."""
        return isinstance(smiles, str) and self._found(smiles) is not None

    def get(self, smiles: str, default: Any = None) -> Any:
        """The name of what is bought for a molecule."""
        found = self._found(smiles)
        return default if found is None else self[found]

    def price(self, smiles: str) -> str:
        """The price of what is bought for a molecule, "" if it has none."""
        return self.prices.get(self._found(smiles) or "", "")

    def cost(self, smiles: str) -> float:
        """The price as a number; infinite if it is not one."""
        return _rank("", self.price(smiles), "")[0]

    def bought(self, smiles: str) -> str:
        """The SMILES, or the InChIKey, of what is bought for a molecule, "" if it is this one."""
        found = self._found(smiles) or ""
        bought = self.salts.get(found, found)
        return "" if bought == smiles else bought

    def racemate(self, smiles: str) -> str | None:
        """A molecule without configuration if no other form is sold than a racemate, else None."""
        return self.racemic.get(self._found(smiles) or "")

    def is_same(self, smiles: str, other: str) -> bool:
        """Whether two molecules match."""
        return smiles == other or not set(self._keys(smiles)).isdisjoint(self._keys(other))

    def add(self, smiles: str, name: str, price: str, salt: str = "") -> None:
        """Add a molecule unless it is there already and not dearer; salt: what is bought for it."""
        if super().__contains__(smiles):
            if self._rank(smiles) <= _rank(name, price, salt):
                return
            self.prices.pop(smiles, None)
        self[smiles] = name
        if price:
            self.prices[smiles] = price
        if salt:
            self.salts[smiles] = salt
        for key in self._keys(smiles):
            cheapest = self._matching.get(key)
            if cheapest is None or self._rank(smiles) < self._rank(cheapest):
                self._matching[key] = smiles

    def add_common(self) -> None:
        """Add the molecules of the stock `common`, unless they are there already."""
        for smiles, about in molecules():
            self.entries += 1
            if not super().__contains__(smiles):
                self.add(smiles, about, "")

    def _found(self, smiles: str) -> str | None:
        """The molecule of the stock that is bought for one; None if it is not for sale."""
        if super().__contains__(smiles):
            return smiles
        return next(filter(None, map(self._matching.get, self._keys(smiles))), None)

    def _keys(self, smiles: str) -> tuple[str, ...]:
        return () if self.match == "exact" else _keys(smiles, self.match)

    def _rank(self, smiles: str) -> tuple[bool, float, bool, bool]:
        return _rank(self[smiles], self.prices.get(smiles, ""), self.salts.get(smiles, ""))


def _rank(name: str, price: str, salt: str) -> tuple[bool, float, bool, bool]:
    """Smaller for what is bought rather: no racemate, the cheapest, no salt, one with a name."""
    number = _PRICE.fullmatch(price)
    value = number["whole"].translate(_GROUPS) + "." + (number["part"] or "0") if number else "inf"
    return "|" in salt, float(value), bool(salt), not (name or price)


@lru_cache(1 << 16)
def _keys(smiles: str, match: Match) -> tuple[str, ...]:
    """What a molecule matches by, the strictest first; its SMILES if RDKit finds nothing better.

    Without stereo, an InChIKey tells neither its isotopes: it matches molecules that have none, and
    that can have stereo, otherwise another key is one of isotopes.
    """
    if INCHIKEY.fullmatch(smiles):
        return (smiles, _skeleton(smiles)) if match == "no-stereo" else (smiles,)
    with quiet():
        if (molecule := read_smiles(smiles)) is None:
            return (smiles,)
        if match == "tautomer":
            return (write_smiles(canonical_tautomer(molecule)),)
        key = str(Chem.MolToInchiKey(molecule))
        if match == "inchikey" or not key:
            return (key or smiles,)
        plain = str(Chem.MolToInchiKey(molecule, options="-SNon"))
        may_differ = _NO_ISOTOPES in plain and len(Chem.FindPotentialStereo(molecule)) > 0
    return (key, plain, _skeleton(plain)) if may_differ else (key, plain)


def _skeleton(key: str) -> str:
    """The atoms, bonds and charge of an InChIKey."""
    return key[:_SKELETON] + key[-1]


def read_stock(
    paths: str | Path | Sequence[str | Path] = COMMON,
    match: Match | None = None,
    *,
    stock_column: str | None = None,
    stock_id_column: str | None = None,
    stock_price_column: str | None = None,
) -> Stock:
    """Read a stock: SMILES and names, .csv, .tsv, .sdf or .json, .gz and .xz too; .hdf5 of pandas.

    paths: a file, or several, which are one stock; "common", not as a Path, is the stock that comes
        with the package, whose molecules are added to those of the files.
    match: by default exact, or by InChIKey if the first entry is one.
    stock_column, stock_id_column, stock_price_column: of a table; found if not given.

    Standard error says how many entries are left out.

    Raises ValueError if no entry of a file is a molecule or a table has no such column, OSError if
    a file cannot be read.
    """
    stock = Stock()
    salts: list[tuple[str, str, str, str]] = []
    racemates: list[tuple[Racemate, str, str]] = []
    prices: dict[str, Any] = {"optional": _PRICES}
    if stock_price_column is not None:
        prices = {"copied": [stock_price_column]}
    read = partial(QueryFile.queries, column=stock_column, name_column=stock_id_column, **prices)
    names = [paths] if isinstance(paths, str | Path) else paths
    files = [Path(name) for name in names if name != COMMON]
    for path in files:
        _read(path, match, read, stock, salts, racemates)
    own = set(stock)
    for main, *about in salts:
        if main not in own:
            stock.add(main, *about)
    if COMMON in names:
        stock.match = stock.match if files else match or "exact"
        stock.add_common()
    own = set(stock)
    for racemate, name, price in racemates:
        for form in (racemate.flat, *racemate.forms):
            served = {form: racemate.flat, _main(form): _main(racemate.flat)}
            for smiles, flat in served.items():
                if smiles and flat and smiles not in own:
                    stock.add(smiles, name, price, racemate.whole)
                    stock.racemic.update({smiles: flat} if smiles != flat else {})
    if stock.bad_entries:
        console.print_err(
            f"{', '.join(map(str, files))}: {stock.bad_entries} of {stock.entries} entries are not "
            f"molecules to RDKit and are left out, the first is {stock.first_bad}"
        )
    return stock


def _read(
    path: Path,
    match: Match | None,
    read: Callable[[QueryFile], Iterator[Query]],
    stock: Stock,
    salts: list[tuple[str, str, str, str]],
    racemates: list[tuple[Racemate, str, str]],
) -> None:
    """Add a file's entries to a stock, and to lists what its salts serve as, and its racemates."""
    usable = stock.entries - stock.bad_entries
    with _opened(path) as source:
        source.options = _COLUMNS
        for number, query in enumerate(read(source), start=1):
            smiles = query.smiles.strip()
            if not smiles and query.error is None:
                continue
            is_key = bool(INCHIKEY.fullmatch(smiles))
            if not stock.entries:
                stock.match = match or ("inchikey" if is_key else "exact")
                if is_key and stock.match in ("exact", "tautomer"):
                    fit = f"'inchikey' or 'no-stereo', {path} has InChIKeys"
                    raise fields.wrong("match", match, fit)
            stock.entries += 1
            is_usable = is_key and stock.match in ("inchikey", "no-stereo")
            price = "".join(query.columns)
            canonical = smiles if is_usable else canonicalise(smiles)
            if canonical is None and (racemate := _racemate(smiles)) is not None:
                racemates.append((racemate, query.name, price))
                continue
            if canonical is None:
                stock.bad_entries += 1
                bad = f"entry {number} of {path.name}, {console.quoted(smiles or query.error)}"
                stock.first_bad = stock.first_bad or bad
                continue
            stock.add(canonical, query.name, price)
            if "." in canonical and (main := _main(canonical)) is not None:
                salts.append((main, query.name, price, canonical))
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
    caught = (ValueError, RecursionError)
    with console.prefixing(f"{path} is not JSON: ", ValueError, caught), open_bytes(path) as data:
        read = partial(json.loads, object_pairs_hook=fields.each_once)
        values = [*map(read, data)] if is_lines else read(data.read())
    if isinstance(values, dict):
        values = [
            {"smiles": smiles, ("price" if isinstance(about, int | float) else "name"): about}
            for smiles, about in values.items()
        ]
    if not isinstance(values, list):
        raise ValueError(f"{path}: expected a list of molecules, or their names by molecule")
    rows = [row if isinstance(row, dict) else {"smiles": row} for row in values or [""]]
    text = StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    if len(names) > _MOST_COLUMNS:
        raise ValueError(
            f"{path}: its objects have {len(names)} names: expected at most {_MOST_COLUMNS}, as "
            "each becomes a column"
        )
    table = csv.DictWriter(text, names)
    table.writeheader()
    table.writerows(rows)
    return iter(text.getvalue().splitlines(keepends=True))


#: What h5py and NumPy raise for a file that pandas did not write.
_ODD_SHAPES = (AttributeError, KeyError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


def _keys_of_hdf5(path: Path) -> list[str]:
    """The InChIKeys of AiZynthFinder's stocks, which pandas writes; no pickle in it is run.

    Raises ValueError if h5py is not installed, or the file has no such table.
    """
    try:
        import h5py
    except ImportError as error:
        raise ValueError(f"{path} is HDF5, which h5py reads: pip install h5py") from error
    fault = f"{path}: expected a table 'table' of pandas: "
    with console.prefixing(fault, ValueError, _ODD_SHAPES), h5py.File(path) as file:
        group = file.get("table", {})
        names = [each for each in group if re.fullmatch("table|block.*_values", each)]
        values = [group[name][...] for name in names]
        texts = [
            np.asarray(part).tobytes()
            for each in values
            for part in (each.flat if each.dtype == object else [each])
        ]
    keys = [key.decode() for text in texts for key in re.findall(_KEYS, text)]
    if not keys:
        raise ValueError(f"{path}: expected a table 'table' of pandas with InChIKeys")
    return keys


def _racemate(smiles: str) -> Racemate | None:
    """The racemate of extended SMILES; None if it is not one, or cut off."""
    with suppress(ValueError):
        return read_racemate(smiles)
    return None


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
