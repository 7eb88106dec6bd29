"""The drafter that molspec chooses for a device, a beam and a number of queries."""

from typing import Any

import pytest

from molspec.drafting import LookAhead, NoDraft, TreeDraft, WindowDrafts
from molspec.prediction.options import PredictOptions
from molspec.prediction.strategy import chosen_drafter, lookahead, paying_tree, queries_together

#: Device, options, and the drafter that is chosen; on a processor without kernels for bfloat16.
CHOSEN: list[tuple[str, dict[str, Any], Any]] = [
    *(("cpu", {"drafter": name, "batch_size": 1}, paying_tree(1)) for name in (None, "tree")),
    *(("cpu", {"drafter": name, "batch_size": 32}, paying_tree(32)) for name in (None, "tree")),
    *(("cuda", {"drafter": name, "batch_size": 1}, TreeDraft(31)) for name in (None, "tree")),
    *(("cuda", {"drafter": name, "batch_size": 32}, TreeDraft(15)) for name in (None, "tree")),
    ("cpu", {"node_budget": 7}, TreeDraft(node_budget=7)),
    ("cpu", {"drafter": TreeDraft(3)}, TreeDraft(3)),
    ("cpu", {"drafter": "windows"}, WindowDrafts()),
    ("cpu", {"drafter": "none"}, NoDraft()),
    ("cpu", {"n_best": 10, "drafter": "tree"}, lookahead(10)),
    ("cpu", {"n_best": 10}, LookAhead(50)),
    *(("cpu", {"n_best": n}, drafts) for n, drafts in ((12, LookAhead(60)), (13, NoDraft()))),
    ("cpu", {"n_best": 24, "batch_size": 1}, LookAhead(120)),
    ("cpu", {"n_best": 25, "batch_size": 1}, NoDraft()),
    ("cpu", {"n_best": 11, "beam": "sbs"}, WindowDrafts()),
    ("cuda", {"batch_size": 64}, TreeDraft(15)),
    ("cuda", {"batch_size": 65}, NoDraft()),
    ("cuda", {"batch_size": 65, "drafter": "tree"}, TreeDraft(15)),
    ("cuda", {"n_best": 2, "batch_size": 2}, NoDraft()),
    ("cuda", {"n_best": 25, "batch_size": 1}, lookahead(25)),
    ("cuda", {"n_best": 26, "batch_size": 1}, NoDraft()),
    ("cuda", {"n_best": 10, "drafter": "tree"}, lookahead(10)),
    ("cuda", {"n_best": 10, "beam": "sbs"}, WindowDrafts()),
]


@pytest.mark.parametrize(("device", "options", "expected"), CHOSEN, ids=str)
def test_device_and_options_choose_the_drafter(
    device: str, options: dict[str, Any], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molspec.engine.ops.instruction_set", lambda: "avx512_vnni")
    assert chosen_drafter(PredictOptions(**options), device) == expected


@pytest.mark.parametrize(("decoder_bytes", "widest"), [(0, 3), (2**24 - 1, 3), (2**24, 10)])
def test_small_models_draft_less_with_kernels_for_bfloat16(
    decoder_bytes: int, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molspec.engine.ops.instruction_set", lambda: "avx512_bf16")
    for width, drafter in ((widest, LookAhead(5 * widest)), (widest + 1, NoDraft())):
        assert chosen_drafter(PredictOptions(n_best=width), "cpu", decoder_bytes) == drafter


def test_larger_batches_draft_only_more_probable_nodes() -> None:
    trees = [paying_tree(batch_size) for batch_size in (1, 2, 4, 8, 32, 1000)]
    thresholds = [tree.min_probability for tree in trees]
    assert thresholds == sorted(set(thresholds))
    assert 0.2 < thresholds[0] < thresholds[-1] < 0.5


@pytest.mark.parametrize(
    "options", [{"verification": "relaxed"}, {"samples": 3, "seed": 1, "verification": "rejection"}]
)
def test_a_batch_does_not_choose_drafts_that_decide_answers(options: dict[str, Any]) -> None:
    chosen = {
        chosen_drafter(PredictOptions(batch_size=size, **options), device)
        for size in (1, 4, 100)
        for device in ("cpu", "cuda")
    }
    assert chosen == {paying_tree(1)}


@pytest.mark.parametrize(
    ("options", "device", "together"),
    [
        ({}, "cpu", 32),
        ({"n_best": 5}, "cpu", 4),
        ({"n_best": 10}, "cpu", 2),
        ({"n_best": 25}, "cpu", 2),
        ({"n_best": 5, "beam_size": 12}, "cpu", 2),
        ({"samples": 6}, "cpu", 4),
        ({"n_best": 10, "batch_size": 1}, "cpu", 1),
        ({"n_best": 10}, "cuda", 32),
    ],
)
def test_few_wide_queries_are_decoded_together_on_a_cpu(
    options: dict[str, Any], device: str, together: int
) -> None:
    assert queries_together(PredictOptions(**options), device) == together
