from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from molspec import Model, checkpoints
from molspec.drafting import NoDraft, TreeDraft
from own.drafters import Counts, Workload
from own.known import Known, answers, fewest_calls, fewest_passes
from tests import tiny


def _write_model(name: str, folder: Path) -> str:
    """Writes the tiny model with heads and a Spec-Drafter."""
    drafters = {
        "heads": tiny.with_heads().heads,
        "spec_drafter": tiny.with_spec_drafter(k=10).spec_drafter,
    }
    checkpoints.write(replace(tiny.checkpoint(), **drafters), folder / name / "model")
    return str(folder / name / "model")


def _report(tmp_path: Path, *arguments: str) -> list[list[str]]:
    """Runs the benchmark and returns the rows of its tables."""
    output = tmp_path / "learned.md"
    flags = ("--timed", "2", "--rounds", "1", "--batches", "1", "3", "--limit", "3", "--beams", "2")
    import_module("learned").main([*arguments, *flags, "--relaxed", "2", "--output", str(output)])
    lines = output.read_text().splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]


def _names(rows: Sequence[Sequence[str]]) -> list[str]:
    return [row[0] for row in rows]


def test_every_drafter_and_rule_has_a_row(table: str, tmp_path: Path) -> None:
    svg = tmp_path / "learned.svg"
    folders = [_write_model(name, tmp_path) for name in ("deep", "small")]
    rows = _report(tmp_path, *folders, table, "--svg", str(svg))
    shown = ["tree", "heads", "tree+heads", "spec, k = 10", "tree+spec, k = 10"]
    for name in ("none", *shown, "spec, k = 5", "knows the answer", "strict", "deep", "small"):
        assert name in _names(rows)
    assert "spec, k = 15" not in _names(rows)  # it was trained for fewer
    judges = [row[1] for row in rows if row[0] == "beta 5, tau 6"]
    assert judges == ["model", "drafter"]
    curves = [
        each
        for each in ElementTree.fromstring(svg.read_text()).iter()
        if each.get("stroke-width") == "2"
    ]
    assert len(curves) == 2 * len(["none", *shown, "knows the answer"])


def test_the_feed_forward_flag_widens_the_model(table: str, tmp_path: Path) -> None:
    rows = _report(tmp_path, _write_model("model", tmp_path), table, "--feed-forward", "64")
    assert "tree" in _names(rows)


@pytest.mark.parametrize("nodes", [1, 5, 16])
def test_a_drafter_that_knows_the_answers_needs_the_fewest_calls(nodes: int) -> None:
    workload = Workload(Model(tiny.checkpoint()), tiny.QUERIES)
    plain = workload.answers(NoDraft())
    known = Known(answers(workload.model, plain), nodes)
    assert workload.answers(known) == plain
    found = Counts.of(workload, known).queries
    fewest = [fewest_calls(each.emitted_tokens, nodes) for each in found]
    assert [each.decoder_calls for each in found] == fewest
    tree = Counts.of(workload, TreeDraft(nodes)).queries
    assert all(
        ideal.decoder_calls <= each.decoder_calls for ideal, each in zip(found, tree, strict=True)
    )


def test_the_fewest_passes_of_a_beam_are_computed() -> None:
    assert fewest_passes(nodes=480, steps=60, beam_size=10, node_budget=50, ahead=12) == 8
    assert fewest_passes(nodes=100, steps=60, beam_size=10, node_budget=50, ahead=12) == 5
