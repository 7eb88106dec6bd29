"""The stock: salts serve as their main component, and are looked up as they stand first."""

import gzip
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from molspec.files import Query, prepare_query
from molspec.planners import stock as stock_module
from molspec.planners.expander import Expander
from molspec.planners.stock import Match, Stock, read_stock
from molspec.text import canonicalise
from tests import refused
from tests.planners.conftest import TARGETS, needs_syntheseus, planner


def stock_of(path: Path, text: str, match: Match | None = None, name: str = "stock.smi") -> Stock:
    (path / name).write_text(text)
    return read_stock(path / name, match)


@pytest.mark.parametrize(
    ("text", "sold"),
    [
        ("[Na+].CC(=O)[O-] acid", {"CC(=O)[O-].[Na+]": "", "CC(=O)O": "CC(=O)[O-].[Na+]"}),
        ("Cl.Cl.NCCN acid", {"Cl.Cl.NCCN": "", "NCCN": "Cl.Cl.NCCN"}),
        # An entry of its own comes first.
        ("Cl.NCCN salt\nNCCN acid", {"Cl.NCCN": "", "NCCN": ""}),
        ("NCCN acid\nCl.NCCN salt", {"NCCN": "", "Cl.NCCN": ""}),
        # A kit of molecules serves as none of them, and an inorganic salt not as its acid.
        ("CC(=O)Cl.Nc1ccccc1 acid", {"CC(=O)Cl.Nc1ccccc1": ""}),
        *(
            (f"{salt} acid", {salt: ""})
            for salt in ("[Na+].[OH-]", "[Cl-].[Na+]", "[C-]#N.[K+]", "O=C([O-])O.[Na+]")
        ),
    ],
)
def test_an_organic_salt_serves_as_its_molecule(
    tmp_path: Path, text: str, sold: dict[str, str]
) -> None:
    stock = stock_of(tmp_path, text)
    assert {smiles: stock.bought(smiles) for smiles in stock} == sold
    assert stock[min(sold, key=len)] == "acid"


@pytest.mark.filterwarnings("default")
def test_several_files_are_one_stock(tmp_path: Path) -> None:
    one, two = tmp_path / "one.smi", tmp_path / "two.csv"
    one.write_text("CC(=O)Cl x\n")
    two.write_text("smiles,name,price\nNc1ccccc1,y,2\nCC(=O)Cl,z,3\n")
    stock = read_stock([one, two])
    assert dict(stock) == {"CC(=O)Cl": "z", "Nc1ccccc1": "y"}  # the one whose price is known
    two.write_text("smiles\nC(\n")
    refused(r"two\.csv: .*; entry 1 of two\.csv, 'C\('", read_stock, [one, two])


def test_the_stock_of_the_package_is_alone_or_beside_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = read_stock()
    assert all(common[each].startswith("common in patents, in ") for each in common)
    assert [*map(canonicalise, [*common][::500])] == [*common][::500]
    assert not {*map(canonicalise, TARGETS)} & {*common}
    (tmp_path / "common").write_text("CC(=O)Cl mine\nCC[18F] x\n")
    monkeypatch.chdir(tmp_path)
    assert dict(read_stock("./common")) == {"CC(=O)Cl": "mine", "CC[18F]": "x"}
    both = read_stock(["common", Path("common")])
    assert (both["CC(=O)Cl"], len(both)) == ("mine", len(common) + 1)
    (tmp_path / "keys").write_text("WETWJCDKMRHUPV-UHFFFAOYSA-N key\n")
    with monkeypatch.context() as few:
        few.setattr(stock_module, "molecules", lambda: [("CC(=O)Cl", "acid"), ("NC", "amine")])
        keys = read_stock(["common", "keys"])
    assert (keys.match, keys.get("CC(=O)Cl"), keys.get("CN")) == ("inchikey", "acid", "amine")


@needs_syntheseus
def test_targets_are_looked_up_whole(tmp_path: Path) -> None:
    stock = stock_of(tmp_path, "[Na+].CC(=O)[O-] acetate\nCl.NCc1ccccc1 hcl\n")
    plan_of = planner(Expander.load("retro", dtype="int8"), stock, routes=1, expansions=3).plan
    for target in ("CC(=O)[O-].[Na+]", "NCc1ccccc1.Cl"):
        plan = plan_of(Query(target))
        assert plan.is_in_stock
        assert not plan.note
    plan = plan_of(Query("Br.NCc1ccccc1"))
    assert plan.is_in_stock
    assert plan.note == "decoded as NCc1ccccc1, without Br"
    assert (plan.names, plan.bought) == ({"NCc1ccccc1": "hcl"}, {"NCc1ccccc1": "Cl.NCc1ccccc1"})
    plan = plan_of(Query("CC(=O)NCc1ccccc1"))
    assert plan.routes[0].steps[0].reactants == ("CC(=O)O", "NCc1ccccc1")
    # What the model cannot read is an error, not a target without routes; nor are reactants one.
    wrong = {"C" * 600: "600 tokens", "[Po]C": "not in the", "CC(=O)Cl.CCN": "not a salt"}
    for target, error in wrong.items():
        plan = plan_of(Query(target))
        assert not plan.routes
        assert plan.error is not None
        assert error in plan.error


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ("exact", {"Cc1cnc[nH]1"}),
        ("inchikey", {"Cc1cnc[nH]1", "Cc1c[nH]cn1", "O=c1cccc[nH]1"}),
        ("no-stereo", {"Cc1cnc[nH]1", "Cc1c[nH]cn1", "O=c1cccc[nH]1", "C[C@H](N)C(=O)O"}),
        ("tautomer", {"Cc1cnc[nH]1", "Cc1c[nH]cn1", "O=c1cccc[nH]1"}),
    ],
)
def test_molecules_match_as_is_asked(tmp_path: Path, match: Match, found: set[str]) -> None:
    text = "Cc1cnc[nH]1 imidazole\nOc1ccccn1\nC[C@@H](N)C(=O)O ala\n"
    stock = stock_of(tmp_path, text, match)
    asked = ["Cc1cnc[nH]1", "Cc1c[nH]cn1", "O=c1cccc[nH]1", "C[C@H](N)C(=O)O", "CCO"]
    assert {smiles for smiles in asked if smiles in stock} == found
    assert (stock.get("Cc1cnc[nH]1"), stock.bought("Cc1cnc[nH]1")) == ("imidazole", "")
    assert (stock.get("CCO"), stock.bought("CCO")) == (None, "")
    other = found - {"Cc1cnc[nH]1"}
    assert {smiles for smiles in asked if stock.bought(smiles)} == other


@pytest.mark.parametrize(
    ("name", "text", "called"),
    [
        ("a.inchikeys", "WETWJCDKMRHUPV-UHFFFAOYSA-N\nPAYRUJLWNCNPSJ-UHFFFAOYSA-N\n", ""),
        ("a.csv", "inchi_key,name\nWETWJCDKMRHUPV-UHFFFAOYSA-N,acetyl\n", "acetyl"),
    ],
)
def test_a_stock_may_be_inchikeys(tmp_path: Path, name: str, text: str, called: str) -> None:
    stock = stock_of(tmp_path, text, name=name)
    assert stock.match == "inchikey"
    assert stock.get("CC(=O)Cl") == called
    assert stock.bought("CC(=O)Cl") == "WETWJCDKMRHUPV-UHFFFAOYSA-N"
    assert "CC(=O)Br" not in stock
    assert "CC(=O)Cl" in read_stock(tmp_path / name, "no-stereo")
    refused("match is 'tautomer': expected 'inchikey'", read_stock, tmp_path / name, "tautomer")


def test_a_key_among_smiles_is_a_bad_entry(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stock = stock_of(tmp_path, "CCO\nWETWJCDKMRHUPV-UHFFFAOYSA-N\nCl.NCCN\n", name="a.smi")
    assert (stock.bad_entries, len(stock)) == (1, 3)
    assert "a.smi: 1 of 3 entries are not molecules" in capfd.readouterr().err
    assert "NCCN" in read_stock(tmp_path / "a.smi", "inchikey")
    assert not capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "Price,SMILES,id\n1.5,OCC,ethanol\n,NCCN,\n7 EUR,Cl.NCc1ccccc1,hcl\n9,CCO,\n"),
        (
            "a.json",
            '[{"smiles": "OCC", "ppg": 1.5, "name": "ethanol"}, {"smiles": "NCCN", "ppg": null}, '
            '{"ppg": "7 EUR", "smiles": "Cl.NCc1ccccc1", "name": "hcl", "more": [1]}]',
        ),
    ],
)
@pytest.mark.parametrize("match", ["exact", "inchikey"])
def test_prices_are_carried_through(tmp_path: Path, name: str, text: str, match: Match) -> None:
    stock = stock_of(tmp_path, text, match, name)
    asked = ("CCO", "NCCN", "NCc1ccccc1")
    assert [stock.price(smiles) for smiles in asked] == ["1.5", "", "7 EUR"]
    assert stock.get("CCO") == "ethanol"


R, S, FLAT = "C[C@@H](O)c1ccccc1", "C[C@H](O)c1ccccc1", "CC(O)c1ccccc1"
CD3I = "[2H]C([2H])([2H])I"


@pytest.mark.parametrize(
    ("match", "rows", "asked", "name", "bought"),
    [
        ("no-stereo", f"{R},r,1 {S},s,100", S, "s", ""),
        ("no-stereo", f"{S},s,100 {R},r,5", FLAT, "r", R),
        ("no-stereo", f"{S},s,N/A {R},r,5", FLAT, "r", R),
        ("no-stereo", f"{S},s,7 {R},r,5 {S},t,3", FLAT, "t", S),
        ("no-stereo", "C/C=C/C(=O)O,e,1 C/C=C\\C(=O)O,z,9", "C/C=C\\C(=O)O", "z", ""),
        ("no-stereo", "C/C=C/C(=O)O,e,1", "C/C=C\\C(=O)O", "e", "C/C=C/C(=O)O"),
        ("no-stereo", f"{CD3I},d3,1", "CI", None, ""),
        ("no-stereo", f"CI,mei,1 {CD3I},d3,9", CD3I, "d3", ""),
        ("no-stereo", "CI,mei,1", CD3I, None, ""),
        ("no-stereo", "CC(=O)[O-],ion,1", "CC(=O)O", None, ""),
        (
            "no-stereo",
            "Cl.C[C@H](N)c1ccccc1,salt,9 C[C@@H](N)c1ccccc1,r,1",
            "C[C@H](N)c1ccccc1",
            "salt",
            "C[C@H](N)c1ccccc1.Cl",
        ),
        ("tautomer", "O=c1cccc[nH]1,keto,5 Oc1ccccn1,enol,100", "Oc1ccccn1", "enol", ""),
        ("inchikey", "Oc1ccccn1,enol,100", "O=c1cccc[nH]1", "enol", "Oc1ccccn1"),
        ("exact", "CCO,a,120 OCC,b,3.5 C(O)C,c,50", "CCO", "b", ""),
        ("exact", "NCCN,base,9 Cl.NCCN,salt,1", "NCCN", "base", ""),
    ],
)
def test_the_exact_molecule_is_bought_else_the_cheapest(
    tmp_path: Path, match: Match, rows: str, asked: str, name: str | None, bought: str
) -> None:
    table = "smiles,name,price\n" + rows.replace(" ", "\n")
    stock = stock_of(tmp_path, table, match, "a.csv")
    assert (asked in stock) == (name is not None)
    assert (stock.get(asked), stock.bought(asked)) == (name, bought)


CIS = "O[C@H]1CCC[C@@H]1N"


@pytest.mark.parametrize(
    ("entries", "asked", "bought", "racemate"),
    [
        (f"{R} |&1:1|", FLAT, f"{R} |&1:1|", None),
        *((f"{R} |{group}|", S, f"{R} |{group}|", FLAT) for group in ("&1:1", "r", "o1:1")),
        (f"{R} |&1:1|\n{S}", S, "", None),
        (f"{R} |&1:1|\n{FLAT}", FLAT, "", None),
        ("Cl.C[C@H](N)CC |&1:2|", "CC[C@@H](C)N", "Cl.C[C@H](N)CC |&1:2|", "CCC(C)N"),
        (f"{CIS} |&1:1,5|", "N[C@H]1CCC[C@@H]1O", f"{CIS} |&1:1,5|", "NC1CCCC1O"),
        (f"{CIS} |&1:1,5|", "N[C@@H]1CCC[C@@H]1O", None, None),
        (f"{CIS} |&1:1,5|", "NC1CCCC1O", f"{CIS} |&1:1,5|", None),
        ("O[C@H]1CCC[C@H]1O |&1:1,5|", "O[C@H]1CCC[C@@H]1O", None, None),
    ],
)
def test_a_racemate_is_bought_as_what_it_is(
    tmp_path: Path, entries: str, asked: str, bought: str | None, racemate: str | None
) -> None:
    stock = stock_of(tmp_path, f"{entries}\tname\n")
    asked = canonicalise(asked) or ""
    assert (asked in stock, stock.racemate(asked)) == (bought is not None, racemate)
    assert stock.bought(asked) == (bought or "")


def test_a_racemate_is_decoded_as_what_stands_for_it() -> None:
    for text, decoded in ((f"{R} |&1:1|", FLAT), (f"{CIS} |r|", canonicalise(CIS))):
        query = prepare_query(Query(text), main=True)
        assert query.decoded == decoded
        assert query.note == f"decoded as {decoded}, which stands for the racemate"
    wrong = {f"{CIS} |&1:1": "cut off", f"{CIS} |&1:99|": "not fit", f"{'C' * 999}{R} |r|": "1,0"}
    for text, fault in wrong.items():
        assert fault in str(prepare_query(Query(text), main=True).error)
    assert not prepare_query(Query(f"{R} |a:1|"), main=True).note


def test_a_key_with_isotopes_is_no_stereoisomer(tmp_path: Path) -> None:
    for key, named, other in (("UHFFFAOYSA", "CI", CD3I), ("FIBGUPNXSA", CD3I, "CI")):
        stock = stock_of(tmp_path, f"INQOMBQAUSQDDS-{key}-N name\n", "no-stereo")
        assert named in stock
        assert other not in stock


#: Prices, and lower ones, or ones that are numbers.
PRICES = {
    "N/A": "2",
    "on request": "900",
    "in 2 weeks": "3",
    "": "3",
    "nan": "1000 EUR",
    "1,200": "900",
    "1 200.50 EUR": "$900",
    "EUR 12": "3,50 €/g",
    "0.5": "0.25",
}


@pytest.mark.parametrize("first", PRICES)
def test_the_lowest_price_that_is_a_number_counts(tmp_path: Path, first: str) -> None:
    rows = [f'CCO,first,"{first}"', f'OCC,second,"{PRICES[first]}"']
    for order in (1, -1):
        table = "\n".join(["smiles,name,price", *rows[::order]])
        stock = stock_of(tmp_path, table, name="a.csv")
        assert (stock.get("CCO"), stock.price("CCO")) == ("second", PRICES[first])


def test_columns_of_a_stock_have_options_of_their_own(tmp_path: Path) -> None:
    path, lines, listed = (tmp_path / name for name in ("a.csv", "a.smi", "a.json"))
    path.write_text("cat_structure,sku,eur\nOCC,e1,3\n")
    lines.write_text("CCO ethanol")
    listed.write_text('[{"mol": "OCC", "eur": 3}]')
    refused("--stock-column", read_stock, path)
    named = {"stock_column": "cat structure", "stock_id_column": "sku"}
    stock = read_stock(path, **named, stock_price_column="EUR")
    assert (stock.get("CCO"), stock.price("CCO")) == ("e1", "3")
    for option in (*named, "stock_price_column"):
        refused(f"^{option} is 'none'", read_stock, path, **{**named, option: "none"})
        refused(f"^{option} is 'x': expected none", read_stock, lines, **{option: "x"})
    stock = read_stock(listed, stock_column="mol", stock_price_column="eur")
    assert stock.price("CCO") == "3"


@pytest.mark.parametrize("text", ['["OCC", "NCCN"]', '{"OCC": "ethanol", "NCCN": null}'])
def test_a_stock_may_be_json(tmp_path: Path, text: str) -> None:
    with gzip.open(tmp_path / "a.json.gz", "wt") as stream:
        stream.write(text)
    assert set(read_stock(tmp_path / "a.json.gz")) == {"CCO", "NCCN"}
    lines = '{"smiles": "OCC"}\n{"smiles": "NCCN"}\n'
    assert set(stock_of(tmp_path, lines, name="a.jsonl")) == {"CCO", "NCCN"}
    priced = '{"OCC": 1.5, "NCCN": "a name"}'  # numbers are prices
    stock = stock_of(tmp_path, priced, name="a.json")
    assert (stock.prices, stock["NCCN"]) == ({"CCO": "1.5"}, "a name")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "expected a list of molecules, or their names by molecule"),
        ("{", "a.json is not JSON: "),
        ('{"C": 1, "N": 2, "C": 3}', "a.json is not JSON: an object has 'C' 2 times"),
        ("[]", "expected molecules for sale, found none"),
        ('{"smiles": {"0": "CCO"}}', "entry 1 of a.json, 'smiles' is none to RDKit"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, text: str, message: str) -> None:
    refused(message, stock_of, tmp_path, text, name="a.json")


def test_hdf5_names_the_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused(r"a\.hdf5 is HDF5, which h5py reads: pip install h5py", read_stock, tmp_path / "a.hdf5")


class TestHdf5:
    """Files as pandas writes them: a column is a pickle (by AiZynthFinder), or rows of bytes."""

    KEYS = ("LFQSCWFLJHTTHZ-UHFFFAOYSA-N", "WETWJCDKMRHUPV-UHFFFAOYSA-N")

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("h5py", reason="h5py is not installed: nox -s syntheseus has it")

    def written(self, path: Path, name: str, values: Any) -> Path:
        import h5py

        with h5py.File(path / "a.hdf5", "w") as file:
            group = file.create_group("table")
            group["axis1"] = numpy.arange(2)
            if isinstance(values, bytes):
                kind = h5py.vlen_dtype(numpy.uint8)
                group.create_dataset(name, (1,), kind)[0] = numpy.frombuffer(values, numpy.uint8)
            else:
                group[name] = values
        return path / "a.hdf5"

    @pytest.mark.parametrize("form", ["fixed", "table"])
    def test_keys_are_read(self, tmp_path: Path, form: str) -> None:
        if form == "fixed":
            pickled = pickle.dumps(numpy.array(self.KEYS, object))
            path = self.written(tmp_path, "block0_values", pickled)
        else:
            rows = [(n, key.encode()) for n, key in enumerate(self.KEYS)]
            path = self.written(tmp_path, "table", numpy.array(rows, [("n", "i8"), ("k", "S27")]))
        stock = read_stock(path)
        assert (stock.match, set(stock)) == ("inchikey", set(self.KEYS))
        assert "CCO" in stock

    def test_no_pickle_is_run(self, tmp_path: Path) -> None:
        class Trap:
            def __reduce__(self) -> Any:
                return (tmp_path.joinpath("sprung").touch, (), None)

        path = self.written(tmp_path, "block0_values", pickle.dumps([*self.KEYS, Trap()]))
        assert len(read_stock(path)) == 2
        assert not (tmp_path / "sprung").exists()

    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="expected a table 'table' of pandas with InChIKeys"):
            read_stock(self.written(tmp_path, "block0_values", numpy.zeros(2)))
        (tmp_path / "b.h5").write_text("CCO\n")
        refused(r"b\.h5: .*signature not found", read_stock, tmp_path / "b.h5")
