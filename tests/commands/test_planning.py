"""`molspec plan`, with Syntheseus itself if it is installed: `nox -s syntheseus`."""

import csv
import json
import sys
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.planners.conftest import EXPANSIONS, STOCK, TARGETS

SEARCH = ("--stock", str(STOCK), "--dtype", "int8", "--seconds", "600")
LIMITS = ("--expansions", str(EXPANSIONS), "--routes", "1", "-n", "5")


def test_plan_without_syntheseus_names_the_missing_package(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "syntheseus", None)
    assert run("plan", TARGETS[0], *SEARCH) == 2
    assert "plan needs the extra 'planning'" in run.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give targets either as SMILES or by --input"),
        ((TARGETS[0],), "give --stock, the file of purchasable molecules"),
        ((TARGETS[0], "--stock", "a", "-n", "0"), "n_best is 0: expected a whole number of at"),
    ],
)
def test_incomplete_arguments_are_refused(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    assert run("plan", *arguments) == 2
    assert message in run.err


@pytest.mark.filterwarnings("default")
class TestWithSyntheseus:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip(
            "syntheseus", reason="Syntheseus is not installed: nox -s syntheseus has it"
        )

    def test_routes_are_shown(self, run: Run) -> None:
        assert run("plan", TARGETS[3], "CCO", "CC(", "CCO>CC", *SEARCH, *LIMITS) == 1
        shown = run.out
        for expected in (
            *("1 route of at least 1 %", "to buy", "CC(\n   error: not a molecule"),
            "CCO>CC\n   error: a side of a reaction: expected a molecule",
        ):
            assert expected in shown

    def test_wrong_arguments_are_one_line(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("no answers\n" * 100)
        job = ("plan", TARGETS[3], *SEARCH, *LIMITS)
        for count in ("1", "2"):
            cache = ("--cache", str(tmp_path / "notes.txt"), "--processes", count)
            assert run(*job, *cache) == 2
            assert "expected a file of answers" in run.err
        assert run(*job, "-m", "product") == 2
        assert "model is 'product'" in run.err

    def test_a_job_resumes_with_an_added_target(self, run: Run, tmp_path: Path) -> None:
        targets, plans = tmp_path / "targets.smi", tmp_path / "plans.jsonl"
        targets.write_text(f"{TARGETS[3]} one\n")
        job = ("plan", "-i", str(targets), "-o", str(plans), *SEARCH, *LIMITS)
        assert run(*job) == 0
        first = plans.read_text()
        targets.write_text(f"{TARGETS[3]} one\n{TARGETS[1]} two\n")
        assert run(*job) == 0
        assert plans.read_text().startswith(first)
        written = [json.loads(line) for line in plans.read_text().splitlines()]
        assert [(plan["id"], len(plan["routes"])) for plan in written] == [("one", 1), ("two", 1)]
        assert run(*job) == 0
        assert run(*job, "--algorithm", "mcts") == 2  # a different search

    def test_requested_columns_of_the_targets_are_copied(self, run: Run, tmp_path: Path) -> None:
        targets, output = tmp_path / "targets.csv", tmp_path / "plans.csv"
        targets.write_text(f"smiles,Price\n{TARGETS[3]},7\nCC(,8\n")
        job = ("plan", "-i", str(targets), *SEARCH, *LIMITS, "--copy-column", "Price")
        assert run(*job, "-o", str(output)) == 1
        rows = csv.DictReader(output.read_text().splitlines())
        assert [(row["solved"], row["Price"]) for row in rows] == [("true", "7"), ("false", "8")]
        assert run(*job, "-f", "jsonl") == 1
        plans = map(json.loads, run.out.splitlines())
        assert [plan["columns"] for plan in plans] == [{"Price": "7"}, {"Price": "8"}]
        for flags, fault in (
            (("-f", "trees"), "none, trees has no columns"),
            (("-f", "csv", "--copy-column", "error"), "a name that no other column has"),
        ):
            assert run(*job, *flags) == 2
            assert f"expected {fault}" in run.err

    def test_two_processes_screen_a_library_like_one(self, run: Run, tmp_path: Path) -> None:
        """One row per target, in their order; two processes write the same rows as one."""
        targets = tmp_path / "targets.smi"
        targets.write_text("".join(f"{s} t{n}\n" for n, s in enumerate([*TARGETS, "CC(", "CN"])))
        tables = []
        for count in ("1", "2"):
            table = tmp_path / f"screened-{count}.csv"
            flags = ("-i", str(targets), "-o", str(table), "--processes", count, "--first")
            assert run("plan", *flags, *SEARCH, "--expansions", str(EXPANSIONS)) == 1
            rows = csv.reader(table.read_text().splitlines())
            tables.append([[*row[:4], *row[5:]] for row in rows])
        assert tables[0] == tables[1]
        assert [row[0] for row in tables[0]] == ["id", "t0", "t1", "t2", "t3", "t4", "t5"]
        assert [row[2] for row in tables[0][4:]] == ["true", "false", "false"]
        said = "2 solved, 0 in stock, 3 not solved, 1 refused, 0 failed"
        assert f"5 of 6 targets answered: {said}" in run.err

    def test_a_job_never_overwrites_its_inputs(self, run: Run, tmp_path: Path) -> None:
        targets, stock = tmp_path / "targets.jsonl", tmp_path / "stock.jsonl"
        targets.write_text("CCO\n")
        stock.write_text('{"smiles": "CCO"}\n')
        both = str(tmp_path / "both.jsonl")  # no such file exists yet
        job = ("plan", "-i", str(targets), "--stock", str(stock), "--overwrite")
        for flags, told in (
            (("-o", str(targets)), f"{targets}, which it reads as --input"),
            (("-o", str(stock)), f"{stock}, which it reads as --stock"),
            (("--cache", str(targets)), f"{targets}, which it reads as --input"),
            (("--cache", both, "-o", both), f"both.jsonl, which it reads as --cache {both}"),
        ):
            assert run(*job, *flags) == 2
            assert told in run.err
        assert targets.read_text() == "CCO\n"
        assert stock.read_text() == '{"smiles": "CCO"}\n'

    def test_stock_names_are_shown_and_bad_entries_counted(self, run: Run, tmp_path: Path) -> None:
        stock = tmp_path / "stock.smi"
        stock.write_text("SMILES Name\nCCO ethanol, dry\n\nC( bad\nCN\n")
        assert run("plan", "OCC", "--stock", str(stock), "--dtype", "int8") == 0
        assert "in stock (ethanol, dry" in run.out
        assert f"{stock}: 1 of 3 entries are not molecules to RDKit and are left out" in run.err
        assert ", 'C('" in run.err

    def test_stocks_and_bonds_may_be_several(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "one.smi").write_text("CC(=O)Cl x\n")
        (tmp_path / "two.smi").write_text("Nc1ccccc1 y\n")
        stocks = [f"--stock={tmp_path / name}" for name in ("one.smi", "two.smi")]
        bonds = ("--keep-bonds", "0-1", "--keep-bonds", "1-2")
        assert run("plan", "CC(=O)Nc1ccccc1", *stocks, *bonds, "-f", "jsonl") == 0
        found = json.loads(run.out)
        assert found["names"] == {"CC(=O)Cl": "x", "Nc1ccccc1": "y"}
        assert "keep bonds 0-1,1-2" in found["note"]

    def test_outcomes_are_counted(self, run: Run, tmp_path: Path) -> None:
        stock, targets = tmp_path / "stock.csv", tmp_path / "targets.csv"
        stock.write_text("cat_structure,sku\nCC(=O)Cl,a\nNc1ccccc1,b\n")
        targets.write_text("compound_structure\nCC(=O)Nc1ccccc1\nNc1ccccc1\n")
        job = ("plan", "-i", str(targets), "--column", "compound_structure", "--dtype", "int8")
        job += ("--stock", str(stock), "-o", str(tmp_path / "plans.jsonl"), "--expansions", "3")
        assert run(*job) == 2
        assert "--stock-column" in run.err
        named = ("--stock-column", "cat_structure", "--stock-id-column", "sku")
        assert run(*job, *named) == 0
        assert "2 of 2 targets answered: 1 solved, 1 in stock, 0 not solved, 0 refused" in run.err
        with targets.open("a") as stream:
            stream.write("CCN(CC)CC\n")
        assert run(*job, *named) == 0
        assert "answered: now 0 solved, 0 in stock, 1 not solved" in run.err
        assert run(*job, *named, "--match", "no-stereo") == 2  # another search
        first, second, third = map(json.loads, (tmp_path / "plans.jsonl").read_text().splitlines())
        assert first["names"] == {"CC(=O)Cl": "a", "Nc1ccccc1": "b"}
        assert (second["names"], third["stopped"]) == ({"Nc1ccccc1": "b"}, "out of expansions")
