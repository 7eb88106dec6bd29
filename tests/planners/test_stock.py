"""The stock: salts serve as their main component, and are looked up as they stand first."""

from __future__ import annotations

from pathlib import Path

import pytest

from molspec.files import Query
from molspec.planners.stock import Match, read_stock


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
def test_targets_are_looked_up_whole(tmp_path: Path) -> None:
    pytest.importorskip(
        "syntheseus", reason="Syntheseus is not installed: nox -s syntheseus has it"
    )
    from molspec.planners.expander import Expander
    from molspec.planners.routes import Limits
    from molspec.planners.search import Planner
    from molspec.planners.syntheseus import BackwardModel

    (tmp_path / "stock.smi").write_text("[Na+].CC(=O)[O-] acetate\nCl.NCc1ccccc1 hcl\n")
    stock = read_stock(tmp_path / "stock.smi")
    model = BackwardModel(expander=Expander.load("retro", dtype="int8"), use_cache=True)
    planner = Planner(model, stock, Limits(routes=1, seconds=600, expansions=3))
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
    with pytest.raises(ValueError, match="match is 'tautomer': expected 'inchikey'"):
        read_stock(tmp_path / name, "tautomer")


def test_a_key_among_smiles_is_a_bad_entry(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("CCO\nWETWJCDKMRHUPV-UHFFFAOYSA-N\nCl.NCCN\n")
    stock = read_stock(tmp_path / "a.smi")
    assert (stock.bad_entries, len(stock)) == (1, 3)
    assert "NCCN" in read_stock(tmp_path / "a.smi", "inchikey")
