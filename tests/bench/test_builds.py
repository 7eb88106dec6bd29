"""Comparisons of two builds, here of one with itself; a wider model computes the same."""

import sys
from dataclasses import replace

import pytest
import torch

import builds
from molspec import Model
from shapes import widened
from tests import tiny

TINY = {
    "product greedy, batch 1": builds.Scenario("product", 2),
    "retro n = 5": builds.Scenario("product", 2, batch_size=3, n_best=2),
}


def test_a_build_compared_with_itself_has_no_differences(
    tiny_model: str, table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builds, "SCENARIOS", TINY)
    flags = ["--scenarios", *TINY, "--dtypes", "int8", "--rounds", "1"]
    flags += ["--shapes", "bundled", "papers'"]
    python = sys.executable
    assert builds.main([python, python, f"product={tiny_model}={table}", *flags]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[4:]]
    assert [cells[1] for cells in rows] == ["bundled", "papers'"] * 2
    assert [cells[8] for cells in rows] == ["0 of 2 |"] * 2 + ["0 of 6 |"] * 2


def test_different_answers_are_counted() -> None:
    class FixedReply(builds.Build):
        def __init__(self, log_prob: float) -> None:
            self.reply = {"seconds": 1.0 - log_prob, "answers": [[("C", log_prob)], [("C", 0.0)]]}

        def move_to(self, core: int) -> None:
            assert core >= 0

        def request(self, _: object) -> dict[str, object]:
            return self.reply

    found = builds.compare([FixedReply(0.0), FixedReply(-0.5)], [["C", "C"]] * 3, rounds=2)
    assert found.differ == 6
    assert found.ratios == [1.5] * 6
    assert found.best(found.new) == 4.5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_added_units_do_not_change_answers(dtype: str) -> None:
    checkpoint = tiny.checkpoint()
    wide = widened(checkpoint, 100)
    assert wide.spec == replace(checkpoint.spec, feed_forward=100)
    found, expected = (
        Model(each, dtype).predict(tiny.QUERIES[:6], n_best=3, max_length=30)
        for each in (wide, checkpoint)
    )
    assert found == expected
    half = widened(checkpoint.to("float16"), 100)
    assert {weight.dtype for weight in half.weights.values()} == {torch.float16}
