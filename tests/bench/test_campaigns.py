"""Every campaign runs with a tiny model and prints its rows; a violation is reported."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import molspec
from molspec import Model, PredictOptions, checkpoints
from molspec.drafting import LookAhead, NoDraft, TreeDraft
from molspec.evaluation import Pair
from own.drafters import Counts, Workload
from own.known import Known, answers, fewest_calls, fewest_passes
from tests import tiny

Captured = pytest.CaptureFixture[str]


def run(name: str, *arguments: object) -> Any:
    """Runs a campaign; its status, if it has one."""
    return import_module(name).main([str(each) for each in arguments])


def named(text: str) -> list[str]:
    """The first cells of the rows of all tables."""
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]


def curves(svg: str) -> int:
    lines = ElementTree.fromstring(svg).iter()
    return sum(each.get("stroke-width") == "2" for each in lines)


def test_accuracy_counts_the_targets_found_and_draws_them(
    table: str, tiny_model: str, tmp_path: Path, capsys: Captured
) -> None:
    amide = "CC(=O)Cl.Nc1ccccc1"
    pairs = [Pair(amide, "CC(=O)Nc1ccccc1"), Pair(amide, "c1ccccc1NC(C)=O"), Pair(amide, "CCO")]
    product = molspec.load("product", dtype="int8")
    _, share = import_module("accuracy").point(product, pairs, 1, "none")
    assert share == pytest.approx(2 / 3)
    picture = tmp_path / "accuracy.svg"
    run("accuracy", f"product={table}", "--rows", "1", "--picture", str(picture))
    assert "| int8 | " in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


def test_drafters_are_compared(tiny_model: str, table: str, capsys: Captured) -> None:
    run("drafters", f"{tiny_model}={table}", "--timed", "2", "--rounds", "1")
    text = capsys.readouterr().out
    assert "## tiny\n\n6 queries" in text
    assert named(text).count("none") == 1
    (none,) = (line for line in text.splitlines() if line.startswith("| none"))
    assert none.split("|")[3:6] == [" 1.0 ", " 0.0% ", " 0.0% "]


def test_sampling_has_a_row_for_every_search_and_drafter(
    tiny_model: str, table: str, capsys: Captured
) -> None:
    searches = ["greedy", "10 samples by rejection", "published beam of 3"]
    flags = ["--rounds", "1", "--answers", "3", "--limit", "2", "--searches", *searches]
    small = ["--small", tiny_model, "--smallest", tiny_model]
    run("sampling", table, "--model", tiny_model, *small, *flags)
    names = named(capsys.readouterr().out)
    assert [names.count(name) for name in ("greedy", searches[2], "3")] == [8, 7, 4]


def test_tables_are_printed_and_a_later_run_resumes(
    tiny_model: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    tables = import_module("tables")
    monkeypatch.setattr(tables, "TURN", 2)
    arguments = ["--product-table", table, "--retro-table", table, "--n", "5"]
    arguments += ["--product-model", tiny_model, "--retro-model", tiny_model]
    arguments += ["--folder", str(tmp_path / "runs"), "--limit"]
    printed = []
    for limit in ("1", "3", "3"):
        run("tables", *arguments, limit)
        printed.append(capsys.readouterr().out)
    assert printed[2] == printed[1]
    files = sorted((tmp_path / "runs").iterdir())
    assert len(files) == len(tables.PRODUCT_GREEDY) + len(tables.PRODUCT_BEAM) + 4
    assert {len(file.read_text().splitlines()) for file in files} == {4}
    assert all(f"## {number}. " in printed[1] for number in range(1, 5))


def test_beams_cover_all_searches_without_violations(
    tiny_model: str, table: str, tmp_path: Path, capsys: Captured
) -> None:
    flags = "--max-length 12 --node-budget 7 --max-depth 3 --min-probability 0.125 --n 2 3"
    report = str(tmp_path / "report.json")
    assert run("beams", table, "--model", tiny_model, *flags.split(), "--json", report) == 0
    text = capsys.readouterr().out
    assert "lookahead 3, 7 nodes, p >= 0.125" in text
    rows = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == ["standard", "exact", "SBS", "SBS, D = 0"] * 2
    searches = json.loads(Path(report).read_text())["searches"]
    assert [len(search["seconds"]) for search in searches] == [6] * 8
    assert all(query["decoder_calls"] > 0 for each in searches for query in each["statistics"])


def test_another_list_of_a_beam_is_a_violation(
    tiny_model: str, table: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another ranking, the lists of exact differ from those of standard search."""
    beams: Any = import_module("beams")
    searches = beams.searches

    def searches_with_another_ranking(n: int, flags: Any) -> Any:
        standard, exact = searches(n, flags)
        return [standard, replace(exact, options=replace(exact.options, length_penalty=9.0))]

    monkeypatch.setattr(beams, "searches", searches_with_another_ranking)
    flags = ("--model", tiny_model, "--max-length", "12", "--n", "3", "--searches", "exact")
    assert run("beams", table, *flags) == 1
    assert "VIOLATED: n = 3, exact: " in capsys.readouterr().out


def test_a_list_that_depends_on_its_batch_is_a_violation() -> None:
    beams: Any = import_module("beams")
    options = PredictOptions(n_best=2, batch_size=1, max_length=12, drafter=LookAhead(10))
    model = tiny.model()
    (found,) = beams.in_turns(model, [beams.Search("standard", options, True)], ["CCO", "CCN", "C"])
    assert list(beams.violations(model, [found], 2)) == []
    first = found.results[0].predictions[0]
    changed = replace(first, log_prob=first.log_prob * (1 + 2**-50))
    found.results[0] = replace(found.results[0], predictions=(changed,))
    expected = ["n = 2, standard: 1 lists change at batch 2"]
    assert list(beams.violations(model, [found], 2)) == expected


def test_learned_has_a_row_for_every_drafter_and_rule(table: str, tmp_path: Path) -> None:
    spec_drafter = tiny.with_spec_drafter(k=10).spec_drafter
    drafters = {"heads": tiny.with_heads().heads, "spec_drafter": spec_drafter}
    models = [tmp_path / name / "model" for name in ("deep", "small")]
    for model in models:
        checkpoints.write(replace(tiny.checkpoint(), **drafters), model)
    svg, output = tmp_path / "a.svg", tmp_path / "a.md"
    few = "--timed 2 --rounds 1 --batches 1 3 --limit 3 --beams 2 --relaxed 2 --feed-forward 64"
    run("learned", *models, table, *few.split(), "--svg", svg, "--output", output)
    shown = ["tree", "heads", "tree+heads", "spec, k = 10", "tree+spec, k = 10"]
    names = named(output.read_text())
    assert {"none", *shown, "spec, k = 5", "knows the answer", "strict", "small"} <= set(names)
    assert "spec, k = 15" not in names  # it was trained for fewer
    assert names.count("beta 5, tau 6") == 2  # judged by the model, and by the drafter
    assert curves(svg.read_text()) == 2 * len(["none", *shown, "knows the answer"])


@pytest.mark.parametrize("nodes", [1, 5, 16])
def test_a_drafter_that_knows_the_answers_needs_the_fewest_calls(nodes: int) -> None:
    workload = Workload(Model(tiny.checkpoint()), tiny.QUERIES)
    plain = workload.answers(NoDraft())
    known = Known(answers(workload.model, plain), nodes)
    assert workload.answers(known) == plain
    found = [each.decoder_calls for each in Counts.of(workload, known).queries]
    tree = Counts.of(workload, TreeDraft(nodes)).queries
    assert found == [fewest_calls(each.emitted_tokens, nodes) for each in tree]
    assert all(fewest <= each.decoder_calls for fewest, each in zip(found, tree, strict=True))


def test_the_fewest_passes_of_a_beam_are_computed() -> None:
    assert fewest_passes(nodes=480, steps=60, beam_size=10, node_budget=50, ahead=12) == 8
    assert fewest_passes(nodes=100, steps=60, beam_size=10, node_budget=50, ahead=12) == 5
