"""Batches hold every pair once, within the budget, in an order that the seed decides."""

import pytest
import torch
from hypothesis import given, strategies as st

from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary
from molspec.training.batches import Batches, Epoch, Passes
from molspec.training.prepared import EncodedPairs
from tests import refused

VOCABULARY = Vocabulary(("<PAD>", "<BOS>", "<EOS>", "C", "O", "N"))
CPU = torch.device("cpu")
ids = st.lists(st.integers(3, 5), min_size=1, max_size=12)
tables = st.lists(st.tuples(ids, ids), min_size=1, max_size=40)


def make(pairs: list[tuple[list[int], list[int]]], budget: int = 60, **spec: bool) -> Batches:
    sizes = ModelSpec(6, 6, max_positions=16, **spec)  # type: ignore[arg-type]
    return Batches(EncodedPairs.pack(pairs), sizes, VOCABULARY, budget, CPU)


def rows(batches: Batches, epoch: Epoch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    pairs = []
    for index in range(len(epoch)):
        source_ids, target_ids = batches.take(epoch, index)
        assert source_ids.dtype == target_ids.dtype == torch.int64
        assert source_ids.numel() + target_ids.numel() <= 60
        assert int((source_ids != 0).sum() + (target_ids != 0).sum()) == epoch.token_counts[index]
        for source, target in zip(source_ids.tolist(), target_ids.tolist(), strict=True):
            assert 0 not in source[: source.index(2)]
            pairs.append((tuple(id_ for id_ in source if id_), tuple(id_ for id_ in target if id_)))
    return pairs


@given(tables, st.integers(0, 3))
def test_an_epoch_has_every_pair_once(pairs: list[tuple[list[int], list[int]]], seed: int) -> None:
    batches = make(pairs)
    wrapped = sorted(((1, *source, 2), (1, *target, 2)) for source, target in pairs)
    assert sorted(rows(batches, batches.epoch(seed, 0))) == wrapped


@pytest.mark.parametrize(
    "spec",
    [
        {"source_bos": False},
        {"source_eos": False},
        {"source_bos": False, "source_eos": False},
        {"target_bos": True},
    ],
)
def test_pairs_get_the_bos_and_eos_of_the_spec(spec: dict[str, bool]) -> None:
    batches = make([([3, 4], [5])], **spec)
    pair = batches.take(batches.epoch(0, 0), 0)
    begin = [1] * spec.get("source_bos", True)
    end = [2] * spec.get("source_eos", True)
    target = [1, *[1] * spec.get("target_bos", False), 5, 2]
    assert [ids[0].tolist() for ids in pair] == [[*begin, 3, 4, *end], target]


def test_seed_and_epoch_number_decide_the_order() -> None:
    pairs = [([3] * (index % 7 + 1), [4] * (index % 5 + 1)) for index in range(200)]
    orders = {(s, n): make(pairs).epoch(s, n).order.tolist() for s in (0, 1) for n in (0, 1)}
    assert make(pairs).epoch(0, 0).order.tolist() == orders[0, 0]
    assert len(set(map(tuple, orders.values()))) == 4


def test_pairs_of_similar_lengths_share_a_batch_that_is_as_wide_as_the_longest() -> None:
    batches = make([([3] * (index % 12 + 1), [4] * (index % 12 + 1)) for index in range(600)])
    epoch = batches.epoch(0, 0)
    sides = [side for index in range(len(epoch)) for side in batches.take(epoch, index)]
    assert all((side[:, -1] != 0).any() for side in sides)
    assert sum(side.numel() for side in sides) < 1.1 * sum(epoch.token_counts)


def test_pairs_that_exceed_the_limits_are_refused() -> None:
    refused("the data have no pairs", make, [])
    refused("batch_tokens is 9: expected at least 10", make, [([3] * 3, [4] * 3)], budget=9)
    refused("max_positions is 16: expected at least 22", make, [([3] * 20, [4])])


def test_spread_takes_pairs_evenly() -> None:
    table = EncodedPairs.pack([([3] * (index + 1), [4]) for index in range(9)])
    spread = table.spread(3)
    assert [len(source) for source, _ in spread.pairs()] == [1, 5, 9]
    assert len(table.spread(100)) == 9


def test_batches_for_a_gpu_have_one_source_length_or_multiples_of_eight() -> None:
    pairs = [([3] * (index % 9 + 1), [4] * (index % 7 + 1)) for index in range(90)]
    batches = make([*pairs, *[([3] * 5, [4] * 4)] * 90])
    batches._multiple = 8
    epoch = batches.epoch(0, 0)
    assert len(rows(batches, epoch)) == 180
    assert set(epoch.padded) == {True, False}
    for index, padded in enumerate(epoch.padded):
        source_ids, target_ids = batches.take(epoch, index)
        assert padded == bool((source_ids == 0).any())
        if padded:
            assert source_ids.shape[1] % 8 == 0
            assert target_ids.shape[1] % 8 == 1  # the decoder reads all but the last


def test_a_pass_that_was_planned_ahead_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = make([([3] * (index % 7 + 1), [4] * (index % 5 + 1)) for index in range(200)])
    plan, planned = batches.epoch, []
    monkeypatch.setattr(batches, "epoch", lambda *of: planned.append(of[1]) or plan(*of))
    passes = Passes(batches, 5)
    for number in (3, 3, 4):
        passes.plan(number)
    for number in (3, 4, 3):
        taken, expected = passes.take(number), plan(5, number)
        assert taken.order.tolist() == expected.order.tolist()
        assert taken.bounds == expected.bounds
    assert planned == [3, 4, 3]  # the last one was not planned again in the thread
