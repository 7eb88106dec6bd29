from __future__ import annotations

import asyncio
from collections import deque
from weakref import ref

from hypothesis import given
from hypothesis import strategies as st

from molspec.options import PredictOptions
from molspec.server.fair_scheduler import FairScheduler
from molspec.server.pending import PendingRequest


class Asked(PendingRequest):
    """As far as turns go; no event loop waits for its answers."""

    def __init__(self, count: int, rows: int = 1, hypotheses: int = 1) -> None:
        self._sizes = count, rows, hypotheses

    count = property(lambda self: self._sizes[0])  # type: ignore[assignment]
    rows = property(lambda self: self._sizes[1])  # type: ignore[assignment]
    hypotheses = property(lambda self: self._sizes[2])  # type: ignore[assignment]


def taken(turns: FairScheduler, most: int = 1000) -> list[tuple[PendingRequest, int]]:
    found = []
    while len(found) < most and (turn := turns.take()) is not None:
        found.append(turn)
    return found


def test_requests_take_turns() -> None:
    turns = FairScheduler(8)
    long, short = Asked(100), Asked(2)
    turns.add(long)
    turns.add(short)
    assert taken(turns) == [(long, 0), (short, 0), (long, 1), (short, 1), (long, 2), (long, 3)]
    turns.done(long)
    assert taken(turns) == [(long, 4)]
    assert turns.waiting_count == 95


def test_an_unanswered_request_counts_as_no_more_than_it_says() -> None:
    """Also while its queries are under way; what is answered or withdrawn does not count."""
    turns = FairScheduler(8)
    long, short = Asked(20), Asked(2)
    long.most_counted = 6
    turns.add(long)
    turns.add(short)
    assert turns.counted == 6 + 2
    assert [request for request, _ in taken(turns)].count(long) == 4
    assert turns.counted == 6 + 2
    turns.done(short)
    assert turns.counted == 6 + 1
    assert turns.remove(long) == 16
    assert turns.counted == 4 + 1
    for request in (long, long, long, long, short):
        turns.done(request)
    assert turns.counted == 0


def test_a_long_request_leaves_rows_to_one_that_comes_later() -> None:
    turns = FairScheduler(8)
    long, late = Asked(100), Asked(1)
    turns.add(long)
    assert len(taken(turns)) == 4
    turns.add(late)
    assert taken(turns) == [(late, 0)]


def test_few_targets_are_under_way_together() -> None:
    """A step verifies all tokens of a target: of sixteen it would be a long one for others."""

    async def made() -> list[PendingRequest]:
        options = PredictOptions(augmentations=3)
        return [PendingRequest(["C"] * 40, options, targets) for targets in (None, ["C"] * 40)]

    spelt, scored = asyncio.run(made())
    for request, together in ((spelt, 5), (scored, 4)):
        turns = FairScheduler(32)
        turns.add(request)
        assert len(taken(turns)) == together


def test_wide_queries_leave_rows_and_time_to_narrow_ones() -> None:
    turns = FairScheduler(32)
    wide = [Asked(4, hypotheses=50) for _ in range(3)]
    for asked in wide:
        turns.add(asked)
    assert taken(turns) == [(wide[0], 0), (wide[1], 0)]
    narrow = Asked(3)
    turns.add(narrow)
    assert taken(turns) == [(narrow, 0), (narrow, 1), (narrow, 2)]
    turns.done(wide[0])
    assert taken(turns) == [(wide[2], 0)]


def test_a_query_that_is_larger_than_all_bounds_is_let_in_alone() -> None:
    turns = FairScheduler(4)
    huge, narrow = Asked(2, rows=9, hypotheses=900), Asked(1)
    turns.add(huge)
    assert taken(turns) == [(huge, 0)]
    turns.add(narrow)
    assert taken(turns) == []  # no row is left
    turns.done(huge)
    assert taken(turns) == [(huge, 1)]  # its turn came first


def test_what_is_removed_has_no_turn_and_is_forgotten() -> None:
    turns = FairScheduler(4)
    asked = Asked(10)
    turns.add(asked)
    assert len(taken(turns)) == 2
    assert turns.remove(asked) == 8
    assert turns.remove(asked) == 0
    assert (turns.waiting_count, turns.take()) == (0, None)
    turns.done(asked)
    turns.done(asked)
    reference = ref(asked)
    del asked
    assert reference() is None


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(1, 150)), max_size=12),
    st.integers(1, 10),
)
def test_every_query_has_its_turn_once(
    requests: list[tuple[int, int, int]], row_count: int
) -> None:
    turns = FairScheduler(row_count)
    requests_made = [Asked(*values) for values in requests]
    for asked in requests_made:
        turns.add(asked)
    under_way: deque[tuple[PendingRequest, int]] = deque()
    seen = []
    while turns.waiting_count or under_way:
        under_way.extend(taken(turns))
        assert under_way, "queries wait, none is under way"
        rows = sum(asked.rows for asked, _ in under_way)
        assert rows <= row_count or len(under_way) == 1
        seen.append(under_way.popleft())
        turns.done(seen[-1][0])
    expected = {(id(asked), index) for asked in requests_made for index in range(asked.count)}
    assert {(id(asked), index) for asked, index in seen} == expected
    assert len(seen) == len(expected)
