"""Parts of the comparison that need no peers: a PyTorch loop, processes, tables, a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import drafters
import peers
from molspec import checkpoints
from peering.convert import convert
from peering.engines import PlainTorch
from peering.process import PeerProcess
from peering.report import Origin, Record, markdown, picture, sizes
from peering.text import Text
from tests import tiny

QUERIES = list(tiny.QUERIES[:6])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted tiny model; the conversion needs no installed peers."""
    root = tmp_path_factory.mktemp("peers")
    checkpoints.write(tiny.checkpoint(), root / "model")
    with pytest.MonkeyPatch.context() as patch:
        for converter in ("_to_ctranslate2", "_to_onnx"):
            patch.setattr(f"peering.convert.{converter}", lambda *_: None)
        convert(str(root / "model"), root / "converted")
    return root / "converted"


@pytest.mark.parametrize("n_best", [1, 3])
def test_the_plain_loop_answers_as_molspec_does(n_best: int, folder: Path) -> None:
    expected = tiny.model().predict(QUERIES, n_best=n_best, max_length=200)
    peer = PlainTorch(folder, "float32", 1)
    found = peer.answer(QUERIES, n_best)
    assert [answers[0] for answers in found] == [r.predictions[0].smiles for r in expected]
    assert peer.answer(QUERIES[2:3], n_best)[0][0] == found[2][0]


def test_text_uses_the_vocabulary_of_the_model(folder: Path) -> None:
    text = Text(folder)
    ids = text.source("c1ccccc1N")
    assert ids == [text.bos_id, *tiny.VOCABULARY.encode("c1ccccc1N"), text.eos_id]
    assert text.target([*ids[1:], 4, 4]) == "c1ccccc1N"


def test_a_process_answers_and_reports_its_error(folder: Path) -> None:
    with PeerProcess(folder, "PyTorch loop", "float32", 1) as process:
        reply = process.request([QUERIES[:2], QUERIES[2:3]], 1)
        assert reply.answers == PlainTorch(folder, "float32", 1).answer(QUERIES[:3], 1)
        assert reply.seconds > 0
        assert reply.peak_bytes > 2**20
        with pytest.raises(RuntimeError, match="KeyError: 'Br'"):
            process.request([["Br"]], 1)


ORIGIN = Origin("product", "0123456789", "test.tsv", {"processor": "x"})


def record(peer: str, setting: str, seconds: float, scenario: str = "a & b") -> Record:
    return Record(scenario, 1, peer, setting, [seconds, seconds, 9.0], 4, 3, 2, 2**20, ORIGIN)


def test_ratios_compare_with_the_best_peer() -> None:
    records = [
        record("molspec", "float32", 0.002),
        record("molspec", "bfloat16", 0.001),
        record("slow", "float32", 0.012),
        record("quick", "int8", 0.006),
    ]
    text = markdown(records, ["a & b"], {})
    assert (
        "`python bench/campaigns/peers.py product=test.tsv --json peers.json` on: processor x; "
        "weights product 01234567." in text
    )
    assert (
        "| a & b | 1 | quick int8 | 6.0 | 2.0 | 3.00x | 1.0 (bfloat16) | 6.00x "
        "| slow float32 | 6.00x |" in text
    )
    assert "| quick int8 | 6.0 | 6.0 | 3.00 | 75% | 50% | 1 |" in text
    svg = ElementTree.fromstring(picture(records, ["a & b"]))
    labels = [element.text for element in svg.iter() if element.tag.endswith("text")]
    assert labels[:2] == ["a & b", "molspec bfloat16"]
    assert "molspec float32" not in labels


@pytest.mark.parametrize(
    "other", [{"weights": "abcdef"}, {"machine": {"processor": "y"}}, {"table": "other.tsv"}]
)
def test_records_of_different_measurements_are_not_mixed(other: dict[str, Any]) -> None:
    records = [record("molspec", "float32", 0.002), record("molspec", "int8", 0.001)]
    records[1] = replace(records[1], origin=replace(ORIGIN, **other))
    with pytest.raises(ValueError, match=r"the same weights; measure it again$"):
        markdown(records, ["a & b"], {})


def test_other_weights_are_converted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for converter in ("_to_ctranslate2", "_to_onnx"):
        monkeypatch.setattr(f"peering.convert.{converter}", lambda *_: None)
    fingerprints = []
    for seed in (1, 2):
        checkpoint = tiny.checkpoint(seed)
        checkpoints.write(checkpoint, tmp_path / str(seed))
        fingerprints.append(convert(str(tmp_path / str(seed)), tmp_path / "converted"))
        assert fingerprints[-1] == checkpoint.fingerprint()
        assert (
            checkpoints.read(tmp_path / "converted" / "molspec").fingerprint() == fingerprints[-1]
        )
    assert fingerprints[0] != fingerprints[1]


def test_a_curve_has_a_column_for_every_measured_value() -> None:
    records = [
        record("molspec", "int8", 0.001, "length 20"),
        record("molspec", "int8", 0.002, "length 40"),
        record("quick", "int8", 0.003, "length 20"),
        record("quick", "int8", 0.004, "length 40"),
        record("now and then", "int8", 0.004, "length 40"),
    ]
    curve = {20: "length 20", 40: "length 40", 80: "length 80"}
    lines = markdown(records, [], {"length": curve}).splitlines()
    assert lines[lines.index("## Milliseconds a query against length, 1 thread") + 2 :] == [
        "| engine | 20 | 40 |",
        "|---|---:|---:|",
        "| molspec int8 | 1.0 | 2.0 |",
        "| quick int8 | 3.0 | 4.0 |",
    ]


def test_queries_closest_to_the_length_are_selected(tmp_path: Path, folder: Path) -> None:
    table = tmp_path / "set.tsv"
    rows = "".join(f"{'C' * n}\t{'C' * n}\n" for n in range(1, 60)) + f"Br\t{'C' * 20}\n"
    table.write_text("src\ttgt\n" + rows)
    found = peers.queries(peers.Scenario("product", 3, length=20), table, folder)
    assert sorted(map(len, found)) == [19, 20, 21]


def test_a_planner_continues_with_answered_molecules(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "set.tsv"
    table.write_text("src\ttgt\n" + "".join(f"{query}\tC\n" for query in QUERIES))
    found = peers.queries(peers.Scenario("product", 9, planner=True), table, folder)
    assert found[0] == QUERIES[0]
    assert len(found) == len(set(found)) <= 9
    answered = {p.smiles for r in tiny.model().predict(found) for p in r.predictions}
    parts = {part for smiles in answered for part in smiles.split(".")}
    assert set(found) <= set(QUERIES) | parts


def test_two_shapes_are_measured_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for converter in ("_to_ctranslate2", "_to_onnx"):
        monkeypatch.setattr(f"peering.convert.{converter}", lambda *_: None)
    monkeypatch.setattr(peers, "SETTINGS", {"molspec": {"float32": {}}})
    checkpoints.write(tiny.checkpoint(), tmp_path / "model")
    table = tmp_path / "set.tsv"
    table.write_text("src\ttgt\n" + "".join(f"{query}\tC\n" for query in QUERIES))
    scenarios = ["product greedy, batch 1", "product greedy, batch 1, papers' shape"]
    flags = ["--peers", "molspec", "--rounds", "1", "--folder", str(tmp_path / "converted")]
    files = ["--json", str(tmp_path / "peers.json"), "--markdown", str(tmp_path / "peers.md")]
    peers.main([f"product={tmp_path / 'model'}={table}", "--scenarios", *scenarios, *flags, *files])
    assert "product=FILE is not given" not in capsys.readouterr().out
    text = (tmp_path / "peers.md").read_text()
    assert "`python bench/campaigns/peers.py product=set.tsv --json peers.json`" in text
    assert "## product greedy, batch 1, papers' shape, 1 thread" in text
    shapes = [
        checkpoints.read(tmp_path / "converted" / subject / "molspec").spec.feed_forward
        for subject in ("product", "product, Molecular Transformer")
    ]
    assert shapes == [tiny.SPEC.feed_forward, 2048]


def test_model_sizes_are_columns() -> None:
    def record(shape: str, peer: str, seconds: float, machine: str = "one") -> Record:
        origin = Origin("product", "abcdef", "set.tsv", {"processor": machine})
        return Record(f"greedy, {shape}", 1, peer, "int8", [seconds], 1, 1, 1, 0, origin)

    scenarios = {"greedy": {"R-SMILES": "greedy, R-SMILES", "Chemformer": "greedy, Chemformer"}}
    records = [record("R-SMILES", "molspec", 0.01), record("R-SMILES", "CTranslate2", 0.025)]
    lines = sizes([*records, record("Chemformer", "molspec", 0.1)], scenarios).splitlines()
    assert "| Chemformer | 6 | 512 | 2048 |" in lines
    assert lines[-3:] == [
        "| molspec int8 | 10.0 | 100.0 |",
        "| CTranslate2 int8 | 25.0 |  |",
        "| **best peer / molspec** | 2.50x |  |",
    ]
    with pytest.raises(ValueError, match=r"measured on .*'two'"):
        sizes([*records, record("R-SMILES", "ONNX Runtime", 1, "two")], scenarios)


def test_drafters_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints.write(tiny.checkpoint(), tmp_path / "model")
    table = tmp_path / "set.tsv"
    table.write_text("src\ttgt\n" + "".join(f"{query}\tC\n" for query in QUERIES))
    drafters.main([f"{tmp_path / 'model'}={table}", "--timed", "2", "--rounds", "1"])
    text = capsys.readouterr().out
    assert "## model\n\n6 queries" in text
    (none,) = (line for line in text.splitlines() if line.startswith("| none"))
    assert none.split("|")[3:6] == [" 1.0 ", " 0.0% ", " 0.0% "]
    assert text.count("\n| tree") == 3
