"""The stock: salts serve as their main component, and are looked up as they stand first."""

import gzip
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from molspec.files import Query
from molspec.planners.stock import Match, read_stock
from tests.refusals import refused


def stock_of(path: Path, text: str) -> dict[str, str]:
    (path / "stock.smi").write_text(text)
    return dict(read_stock(path / "stock.smi"))


def test_a_salt_serves_as_its_main_component(tmp_path: Path) -> None:
    stock = stock_of(tmp_path, "[Na+].CC(=O)[O-] acetate\nCl.NCc1ccccc1\nCl.Cl.NCCN dihydro\n")
    assert stock == {
        "CC(=O)[O-].[Na+]": "acetate",
        "CC(=O)O": "acetate, CC(=O)[O-].[Na+]",
        "Cl.NCc1ccccc1": "",
        "NCc1ccccc1": "Cl.NCc1ccccc1",
        "Cl.Cl.NCCN": "dihydro",
        "NCCN": "dihydro, Cl.Cl.NCCN",
    }


def test_a_kit_of_molecules_serves_as_none_of_them(tmp_path: Path) -> None:
    assert len(stock_of(tmp_path, "CC(=O)Cl.Nc1ccccc1 kit\n")) == 1


@pytest.mark.parametrize("text", ["Cl.NCCN salt\nNCCN base\n", "NCCN base\nCl.NCCN salt\n"])
def test_an_entry_of_its_own_comes_first(tmp_path: Path, text: str) -> None:
    assert stock_of(tmp_path, text)["NCCN"] == "base"


@pytest.mark.parametrize("salt", ["[Na+].[OH-]", "[Na+].[Cl-]", "[K+].[C-]#N", "[Na+].O=C([O-])O"])
def test_an_inorganic_salt_is_no_source_of_its_acid(tmp_path: Path, salt: str) -> None:
    assert len(stock_of(tmp_path, salt)) == 1


@pytest.mark.filterwarnings("default")
def test_several_files_are_one_stock(tmp_path: Path) -> None:
    one, two = tmp_path / "one.smi", tmp_path / "two.csv"
    one.write_text("CC(=O)Cl x\n")
    two.write_text("smiles,name,price\nNc1ccccc1,y,2\nCC(=O)Cl,z,3\n")
    stock = read_stock([one, two])
    assert dict(stock) == {"CC(=O)Cl": "x", "Nc1ccccc1": "y"}
    two.write_text("smiles\nC(\n")
    refused(r"two\.csv: .*; entry 1 of two\.csv, 'C\('", read_stock, [one, two])


def test_targets_are_looked_up_whole(tmp_path: Path) -> None:
    pytest.importorskip(
        "syntheseus", reason="Syntheseus is not installed: nox -s syntheseus has it"
    )
    from molspec.planners.expander import Expander
    from molspec.planners.routes import SearchLimits
    from molspec.planners.search import Planner
    from molspec.planners.syntheseus import BackwardModel

    (tmp_path / "stock.smi").write_text("[Na+].CC(=O)[O-] acetate\nCl.NCc1ccccc1 hcl\n")
    stock = read_stock(tmp_path / "stock.smi")
    model = BackwardModel(expander=Expander.load("retro", dtype="int8"), use_cache=True)
    planner = Planner(model, stock, SearchLimits(routes=1, seconds=600, expansions=3))
    for target in ("CC(=O)[O-].[Na+]", "NCc1ccccc1.Cl"):
        plan = planner.plan(Query(target))
        assert plan.is_in_stock
        assert not plan.note
    plan = planner.plan(Query("Br.NCc1ccccc1"))
    assert plan.is_in_stock
    assert plan.note == "decoded as NCc1ccccc1, without Br"
    assert plan.names == {"NCc1ccccc1": "hcl, Cl.NCc1ccccc1"}
    plan = planner.plan(Query("CC(=O)NCc1ccccc1"))
    assert plan.routes[0].steps[0].reactants == ("CC(=O)O", "NCc1ccccc1")
    # What the model cannot read is an error, not a target without routes; nor are reactants one.
    wrong = {"C" * 600: "600 tokens", "[Po]C": "not in the", "CC(=O)Cl.CCN": "not a salt"}
    for target, error in wrong.items():
        plan = planner.plan(Query(target))
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
    (tmp_path / "a.smi").write_text("Cc1cnc[nH]1 imidazole\nOc1ccccn1\nC[C@@H](N)C(=O)O ala\n")
    stock = read_stock(tmp_path / "a.smi", match)
    asked = ["Cc1cnc[nH]1", "Cc1c[nH]cn1", "O=c1cccc[nH]1", "C[C@H](N)C(=O)O", "CCO"]
    assert {smiles for smiles in asked if smiles in stock} == found
    named = "imidazole" if match == "exact" else "imidazole, Cc1cnc[nH]1"
    assert stock.get("Cc1cnc[nH]1") == named
    assert stock.get("CCO") is None


@pytest.mark.parametrize(
    ("name", "text", "called"),
    [
        ("a.inchikeys", "WETWJCDKMRHUPV-UHFFFAOYSA-N\nPAYRUJLWNCNPSJ-UHFFFAOYSA-N\n", ""),
        ("a.csv", "inchi_key,name\nWETWJCDKMRHUPV-UHFFFAOYSA-N,acetyl\n", "acetyl, "),
    ],
)
def test_a_stock_may_be_inchikeys(tmp_path: Path, name: str, text: str, called: str) -> None:
    (tmp_path / name).write_text(text)
    stock = read_stock(tmp_path / name)
    assert stock.match == "inchikey"
    assert stock.get("CC(=O)Cl") == f"{called}WETWJCDKMRHUPV-UHFFFAOYSA-N"
    assert "CC(=O)Br" not in stock
    assert "CC(=O)Cl" in read_stock(tmp_path / name, "no-stereo")
    refused("match is 'tautomer': expected 'inchikey'", read_stock, tmp_path / name, "tautomer")


def test_a_key_among_smiles_is_a_bad_entry(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("CCO\nWETWJCDKMRHUPV-UHFFFAOYSA-N\nCl.NCCN\n")
    stock = read_stock(tmp_path / "a.smi")
    assert (stock.bad_entries, len(stock)) == (1, 3)
    assert "NCCN" in read_stock(tmp_path / "a.smi", "inchikey")


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
    (tmp_path / name).write_text(text)
    stock = read_stock(tmp_path / name, match)
    asked = ("CCO", "NCCN", "NCc1ccccc1")
    assert [stock.price(smiles) for smiles in asked] == ["1.5", "", "7 EUR"]
    assert stock.get("CCO") == ("ethanol" if match == "exact" else "ethanol, CCO")


def test_numbers_by_molecule_are_prices(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"OCC": 1.5, "NCCN": "a name"}')
    stock = read_stock(tmp_path / "a.json")
    assert (stock.prices, stock["NCCN"]) == ({"CCO": "1.5"}, "a name")


@pytest.mark.parametrize("text", ['["OCC", "NCCN"]', '{"OCC": "ethanol", "NCCN": null}'])
def test_a_stock_may_be_json(tmp_path: Path, text: str) -> None:
    with gzip.open(tmp_path / "a.json.gz", "wt") as stream:
        stream.write(text)
    assert set(read_stock(tmp_path / "a.json.gz")) == {"CCO", "NCCN"}
    (tmp_path / "a.jsonl").write_text('{"smiles": "OCC"}\n{"smiles": "NCCN"}\n')
    assert set(read_stock(tmp_path / "a.jsonl")) == {"CCO", "NCCN"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "expected a list of molecules, or their names by molecule"),
        ("{", "a.json is not JSON: "),
        ("[]", "expected molecules for sale, found none"),
        ('{"smiles": {"0": "CCO"}}', "entry 1 of a.json, 'smiles' is none to RDKit"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    refused(message, read_stock, tmp_path / "a.json")


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
