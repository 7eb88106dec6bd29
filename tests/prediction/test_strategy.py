"""The drafter that molspec chooses for a device, a beam and a number of queries."""

from typing import Any

import pytest

from molspec.drafting import LookAhead, NoDraft, TreeDraft, WindowDrafts
from molspec.prediction.options import PredictOptions
from molspec.prediction.strategy import chosen_drafter, lookahead, paying_tree, queries_together


def chosen(device: str, **options: object) -> object:
    return chosen_drafter(PredictOptions(**options), device)  # type: ignore[arg-type]


def test_larger_batches_draft_only_more_probable_nodes() -> None:
    trees = [paying_tree(batch_size) for batch_size in (1, 2, 4, 8, 32, 1000)]
    thresholds = [tree.min_probability for tree in trees]
    assert thresholds == sorted(set(thresholds))
    assert 0.2 < thresholds[0] < thresholds[-1] < 0.5


@pytest.mark.parametrize("drafter", [None, "tree"])
def test_greedy_trees_are_chosen_by_batch_size(drafter: str | None) -> None:
    for batch_size in (1, 32):
        tree = chosen("cpu", drafter=drafter, batch_size=batch_size)
        assert tree == paying_tree(batch_size)
        tree = TreeDraft(node_budget=31 if batch_size == 1 else 15)
        assert chosen("cuda", drafter=drafter, batch_size=batch_size) == tree


@pytest.mark.parametrize("options", [{"verification": "relaxed"}, {"samples": 3, "seed": 1}])
def test_a_batch_does_not_choose_drafts_that_decide_answers(options: dict[str, Any]) -> None:
    if "samples" in options:
        options = {**options, "verification": "rejection"}
    chosen = {
        chosen_drafter(PredictOptions(batch_size=size, **options), device)
        for size in (1, 4, 100)
        for device in ("cpu", "cuda")
    }
    assert chosen == {paying_tree(1)}


def test_requested_drafter_is_chosen() -> None:
    assert chosen("cpu", node_budget=7) == TreeDraft(node_budget=7)
    assert chosen("cpu", drafter=TreeDraft(3)) == TreeDraft(3)
    assert chosen("cpu", drafter="windows") == WindowDrafts()
    assert chosen("cpu", drafter="none") == NoDraft()
    assert chosen("cpu", n_best=10, drafter="tree") == lookahead(10)


@pytest.mark.parametrize(
    ("kernels", "decoder_bytes", "widest"),
    [
        ("avx512_bf16", 0, 3),
        ("avx512_bf16", 16 * 2**20 - 1, 3),
        ("avx512_bf16", 16 * 2**20, 10),
        ("avx512_vnni", 0, 10),
    ],
)
def test_wide_exact_beams_do_not_draft_on_the_cpu(
    kernels: str, decoder_bytes: int, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molspec.engine.ops.instruction_set", lambda: kernels)
    drafter = chosen_drafter(PredictOptions(n_best=widest), "cpu", decoder_bytes)
    assert drafter == LookAhead(5 * widest)
    wider = PredictOptions(n_best=widest + 1)
    assert chosen_drafter(wider, "cpu", decoder_bytes) == NoDraft()
    assert isinstance(chosen("cpu", n_best=widest + 1, beam="sbs"), WindowDrafts)


@pytest.mark.parametrize(("queries", "drafts"), [(1, True), (64, True), (65, False)])
def test_many_greedy_queries_do_not_draft_on_a_device(queries: int, drafts: bool) -> None:
    assert (chosen("cuda", batch_size=queries) != NoDraft()) == drafts
    assert chosen("cuda", batch_size=queries, drafter="tree") != NoDraft()


def test_exact_beams_draft_on_a_device_only_alone() -> None:
    assert chosen("cuda", n_best=2, batch_size=2) == NoDraft()
    assert isinstance(chosen("cuda", n_best=25, batch_size=1), LookAhead)
    assert chosen("cuda", n_best=26, batch_size=1) == NoDraft()
    assert isinstance(chosen("cuda", n_best=10, drafter="tree"), LookAhead)
    assert isinstance(chosen("cuda", n_best=10, beam="sbs"), WindowDrafts)


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
