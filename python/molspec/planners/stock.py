"""The stock: purchasable molecules, and their suppliers' names."""

from __future__ import annotations

from pathlib import Path

from rdkit import Chem

from molspec.files import open_source
from molspec.text import canonicalise, read_smiles
from molspec.text.salts import main_component

#: Carbon with hydrogen or carbon: of sodium acetate, not of sodium carbonate.
_ORGANIC = Chem.MolFromSmarts("[#6;!H0,$([#6]~[#6])]")


class Stock(dict[str, str]):
    """Names by canonical SMILES, "" if a molecule has none.

    An organic salt or mixture also serves as its main component, which is named after it: then the
    name has the SMILES of what is bought.

    entries: the number of entries read; bad_entries: the number of those that are no molecules;
        first_bad: the number and text of the first of them.
    """

    entries = 0
    bad_entries = 0
    first_bad = ""


def read_stock(path: Path) -> Stock:
    """Read a stock from a file of queries: SMILES and names, .csv, .tsv or .sdf; .gz and .xz too.

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
            stock.entries += 1
            canonical = None if query.error else canonicalise(smiles)
            if canonical is not None:
                stock[canonical] = stock.get(canonical) or query.name
                if "." in canonical and (main := _main(canonical)) is not None:
                    served.setdefault(main, ", ".join(filter(None, (query.name, canonical))))
            else:
                stock.bad_entries += 1
                stock.first_bad = stock.first_bad or f"entry {number}, {smiles or query.error!r}"
    if not stock:
        bad = f"; {stock.first_bad} is none to RDKit" if stock.bad_entries else ""
        raise ValueError(f"{path}: expected molecules for sale, there is none{bad}")
    for main, name in served.items():
        stock.setdefault(main, name)
    return stock


def _main(canonical: str) -> str | None:
    """The organic main component of a salt or mixture; None if there is none."""
    main, removed = main_component(canonical)
    if not removed:
        return None
    given = map(read_smiles, (canonical, main))  # HCN is organic, but not KCN
    organic = (each is not None and each.HasSubstructMatch(_ORGANIC) for each in given)
    return main if all(organic) else None
