"""`molspec plan`, with Syntheseus itself if it is installed: `nox -s syntheseus`."""

import csv
import json
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import write
from tests.conftest import Run
from tests.planners.conftest import EXPANSIONS, STOCK, TARGETS, needs_syntheseus

SEARCH = f"--stock {STOCK} --dtype int8 --seconds 600 --expansions {EXPANSIONS}"
LIMITS = f"{SEARCH} --routes 1 -n 5"


def test_plan_without_syntheseus_names_the_missing_package(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "syntheseus", None)
    assert run(f"plan C {SEARCH}") == 2
    assert "plan needs the extra 'planning'" in run.err


@needs_syntheseus
@pytest.mark.filterwarnings("default")
class TestWithSyntheseus:
    def test_routes_are_shown(self, run: Run) -> None:
        assert run(f"plan '{TARGETS[3]}' CCO CC( 'CCO>CC' {LIMITS}") == 1
        for expected in (
            *("1 route of at least 1 %", "to buy", "CC(\n   error: not a molecule"),
            "CCO>CC\n   error: a side of a reaction: expected a molecule",
        ):
            assert expected in run.out

    def test_wrong_arguments_are_one_line(self, run: Run) -> None:
        write("notes.txt", "no answers\n" * 100)
        for flags, told in (
            ("--cache notes.txt --processes 1", "expected a file of answers"),
            ("--cache notes.txt --processes 2", "expected a file of answers"),
            ("-m product", "-m is 'product'"),
        ):
            assert run(f"plan '{TARGETS[3]}' {LIMITS} {flags}") == 2
            assert (told in run.err, run.err.count("\n")) == (True, 1)
        assert (run("plan C --stock-column x"), "column is 'x'" in run.err) == (2, True)

    def test_requested_columns_of_the_targets_are_copied(self, run: Run) -> None:
        write("targets.csv", f"smiles,Price\n{TARGETS[3]},7\nCC(,8\n")
        job = f"plan -i targets.csv {LIMITS} --copy-column Price"
        assert run(f"{job} -o plans.csv") == 1
        rows = csv.DictReader(Path("plans.csv").read_text().splitlines())
        assert [(row["solved"], row["Price"]) for row in rows] == [("true", "7"), ("false", "8")]
        assert run(f"{job} -f jsonl") == 1
        plans = [json.loads(plan)["columns"] for plan in run.out.splitlines()]
        assert plans == [{"Price": "7"}, {"Price": "8"}]
        for flags, fault in (
            ("-f trees", "none, trees has no columns"),
            ("-f csv --copy-column error", "a name that no other column has"),
        ):
            assert run(f"{job} {flags}") == 2
            assert f"expected {fault}" in run.err

    def test_two_processes_screen_a_library_like_one(self, run: Run) -> None:
        """One row per target, in their order; two processes write the same rows as one."""
        lines = (f"{smiles} t{n}\n" for n, smiles in enumerate([*TARGETS, "CC(", "CN"]))
        write("targets.smi", "".join(lines))
        tables = []
        for count in (1, 2):
            job = f"plan -i targets.smi -o {count}.csv --processes {count} --first {SEARCH}"
            assert run(job) == 1
            rows = csv.reader(Path(f"{count}.csv").read_text().splitlines())
            tables.append([[*row[:4], *row[5:]] for row in rows])
        assert tables[0] == tables[1]
        assert [row[0] for row in tables[0]] == ["id", "t0", "t1", "t2", "t3", "t4", "t5"]
        assert [row[2] for row in tables[0][4:]] == ["true", "false", "false"]
        said = "2 solved, 0 in stock, 3 not solved, 1 refused, 0 failed"
        assert f"5 of 6 targets answered: {said}" in run.err

    def test_a_job_never_overwrites_its_inputs(self, run: Run) -> None:
        texts = {"targets.jsonl": "CCO\n", "stock.jsonl": '{"smiles": "CCO"}\n'}
        for name, text in texts.items():
            write(name, text)
        for flags, told in (
            ("-o targets.jsonl", "targets.jsonl, which it reads as --input"),
            ("-o stock.jsonl", "stock.jsonl, which it reads as --stock"),
            ("--cache targets.jsonl", "targets.jsonl, which it reads as --input"),
            ("--cache both.jsonl -o both.jsonl", "both.jsonl, which it reads as --cache both"),
        ):
            assert run(f"plan -i targets.jsonl --stock stock.jsonl --overwrite {flags}") == 2
            assert told in run.err
        assert {name: Path(name).read_text() for name in texts} == texts

    def test_stocks_and_bonds_may_be_several(self, run: Run) -> None:
        write("one.smi", "SMILES Name\nCC(=O)Cl x, dry\n\nC( bad\n")
        write("two.smi", "Nc1ccccc1 y\n")
        several = "--stock one.smi --stock two.smi --keep-bonds 0-1 --keep-bonds 1-2"
        assert run(f"plan CC(=O)Nc1ccccc1 {several} -f jsonl") == 0
        found = json.loads(run.out)
        assert found["names"] == {"CC(=O)Cl": "x, dry", "Nc1ccccc1": "y"}
        assert "keep bonds 0-1,1-2" in found["note"]
        assert "one.smi, two.smi: 1 of 3 entries are not molecules to RDKit and are" in run.err
        assert ", 'C('" in run.err
        assert run("plan ClC(C)=O --stock one.smi --stock common") == 0
        assert "in stock (x, dry" in run.out
        assert "the stock is common, molecules common in patents, no supplier's" in run.err
        assert run("plan CCN(CC)CC(=O)Nc1c(C)cccc1C --routes 1 --expansions 9") == 0
        assert "to buy" in run.out
        assert "(common in patents, in " in run.out

    def test_outcomes_are_counted(self, run: Run) -> None:
        write("stock.csv", "cat_structure,sku\nCC(=O)Cl,a\nNc1ccccc1,b\n")
        targets = "compound_structure\nCC(=O)Nc1ccccc1\nNc1ccccc1\n"
        write("targets.csv", targets)
        job = "plan -i targets.csv --column compound_structure --dtype int8 --stock stock.csv"
        job += " -o plans.jsonl --expansions 3"
        assert run(job) == 2
        assert "--stock-column" in run.err
        job += " --stock-column cat_structure --stock-id-column sku"
        assert run(job) == 0
        assert "2 of 2 targets answered: 1 solved, 1 in stock, 0 not solved, 0 refused" in run.err
        write("targets.csv", f"{targets}CCN(CC)CC\n")
        assert run(job) == 0
        assert "answered: now 0 solved, 0 in stock, 1 not solved" in run.err
        for flags in ("--match no-stereo", "--algorithm mcts", "-n 3"):
            assert run(f"{job} {flags}") == 2  # another search
        first, second, third = map(json.loads, Path("plans.jsonl").read_text().splitlines())
        assert [each["id"] for each in (first, second, third)] == ["1", "2", "3"]
        assert first["names"] == {"CC(=O)Cl": "a", "Nc1ccccc1": "b"}
        assert (second["names"], third["stopped"]) == ({"Nc1ccccc1": "b"}, "out of expansions")
