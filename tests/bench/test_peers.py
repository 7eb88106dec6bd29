"""Parts of the comparisons that need no peers: a PyTorch loop, processes, tables, curves."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import peers
from molspec import checkpoints
from peering import routes
from peering.convert import convert
from peering.engines import PlainTorch
from peering.process import PeerProcess
from peering.report import Origin, Record, markdown, picture
from peering.trial import Trial
from tests import refused, tiny

QUERIES = list(tiny.QUERIES[:6])


@pytest.fixture(autouse=True, scope="module")
def _without_peers() -> Any:
    """Conversions need no installed peers."""
    with pytest.MonkeyPatch.context() as patch:
        for converter in ("_to_ctranslate2", "_to_onnx"):
            patch.setattr(f"peering.convert.{converter}", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def folder(_without_peers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted tiny model."""
    root = tmp_path_factory.mktemp("peers")
    checkpoints.write(tiny.checkpoint(), root / "model")
    convert(str(root / "model"), root / "converted")
    return root / "converted"


@pytest.mark.parametrize("n_best", [1, 3])
def test_the_plain_loop_answers_as_molspec_does(n_best: int, folder: Path) -> None:
    expected = tiny.model().predict(QUERIES, n_best=n_best, max_length=200)
    peer = PlainTorch(folder, "float32", 1)
    found = peer.answer(QUERIES, n_best)
    assert [answers[0] for answers in found] == [r.predictions[0].smiles for r in expected]
    assert peer.answer(QUERIES[2:3], n_best)[0][0] == found[2][0]


def test_a_process_answers_and_reports_its_error(folder: Path) -> None:
    with PeerProcess(folder, "PyTorch loop", "float32", 1) as process:
        reply = process.answer([QUERIES[:2], QUERIES[2:3]], 1)
        assert reply.answers == PlainTorch(folder, "float32", 1).answer(QUERIES[:3], 1)
        assert reply.seconds > 0
        assert reply.peak_bytes > 2**20
        refused(RuntimeError, "KeyError: 'Br'", process.answer, [["Br"]], 1)


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
    quick = "| a & b | 1 | quick int8 | 6.0 | 2.0 | 3.00x | 1.0 (bfloat16) | 6.00x "
    assert f"{quick}| slow float32 | 6.00x |" in text
    assert "| quick int8 | 6.0 | 6.0 | 3.00 | 75% | 50% | 1 |" in text
    svg = ElementTree.fromstring(picture(records, ["a & b"]))
    labels = [element.text for element in svg.iter() if element.tag.endswith("text")]
    assert labels[:2] == ["a & b", "molspec bfloat16"]
    assert "molspec float32" not in labels


def test_records_of_different_measurements_are_not_mixed() -> None:
    records = [record("molspec", "float32", 0.002), record("molspec", "int8", 0.001)]
    records[1] = replace(records[1], origin=replace(ORIGIN, machine={"processor": "y"}))
    refused(r"the same weights; measure it again$", markdown, records, ["a & b"], {})


def test_other_weights_are_converted_again(tmp_path: Path) -> None:
    fingerprints = []
    for seed in (1, 2):
        checkpoints.write(tiny.checkpoint(seed), tmp_path / str(seed))
        fingerprints.append(convert(str(tmp_path / str(seed)), tmp_path / "converted"))
        converted = checkpoints.read(tmp_path / "converted" / "molspec")
        assert fingerprints[-1] == tiny.checkpoint(seed).fingerprint() == converted.fingerprint()
    assert fingerprints[0] != fingerprints[1]


def test_two_shapes_are_measured_in_one_run(
    tiny_model: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "SETTINGS", {"molspec": {"float32": {}}})
    scenarios = ["product greedy, batch 1", "product greedy, batch 1, papers' shape"]
    flags = ["--peers", "molspec", "--rounds", "1", "--folder", str(tmp_path / "converted")]
    files = ["--json", str(tmp_path / "peers.json"), "--markdown", str(tmp_path / "peers.md")]
    peers.main([f"product={tiny_model}={table}", "--scenarios", *scenarios, *flags, *files])
    text = (tmp_path / "peers.md").read_text()
    assert "peers.py product=table.tsv --json peers.json`" in text
    assert "## product greedy, batch 1, papers' shape, 1 thread" in text
    shapes = [
        checkpoints.read(tmp_path / "converted" / subject / "molspec").spec.feed_forward
        for subject in ("product", "product, papers' shape")
    ]
    assert shapes == [tiny.SPEC.feed_forward, 2048]


def trial(engine: str, target: str, limit: float, first: float | None, expanded: int = 2) -> Trial:
    seconds = first or limit
    return Trial(f"{engine} int8", "n1", target, limit, first, seconds, 0.8 * seconds, expanded)


TRIALS = [
    trial("molspec", "CCO", 1.0, 0.05),
    trial("molspec", "CCN", 1.0, 0.4, 9),
    trial("CTranslate2", "CCO", 0.3, 0.2),
    trial("CTranslate2", "CCN", 0.3, None),
    trial("CTranslate2", "CCN", 1.0, None, 8),
    trial("molspec", "taken by one alone", 1.0, 0.01, 1),
]


def test_shares_of_routes_are_of_trials_with_enough_time() -> None:
    limits = ((1.0, 0.1), (0.3, 0.35), (1.0, 0.4), (1.0, None))
    trials = [trial("molspec", "CCO", limit, first) for limit, first in limits]
    assert routes.curve(trials) == [(0.1, 0.25), (0.4, 0.625)]
    assert [share for _, share in routes.curve(TRIALS[:2])] == [0.5, 1]


def test_routes_are_counted_for_targets_that_all_engines_searched() -> None:
    lines = routes.markdown(TRIALS, {"n_best": 10}).splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")]
    assert rows[0][1:4] == ["0.1 s of 2", "0.3 s of 2", "1 s of 2"]
    assert [row[1:7] for row in rows[1:]] == [
        ["1", "1", "2", "", "0.05 s", "24.4"],
        ["0", "1", "1", "", "0.20 s", "8.3"],
    ]
    assert "\n| CTranslate2 int8 | 0 | 1 |  |" in routes.markdown(TRIALS[:4], {})  # had less time
    curves = ElementTree.fromstring(routes.picture(TRIALS)).iter()
    assert sum(each.get("stroke-width") == "2" for each in curves) == 2
