import asyncio
from collections import deque
from weakref import ref

from hypothesis import given, strategies as st

from molspec.prediction.options import PredictOptions
from molspec.server.fair_scheduler import FairScheduler
from molspec.server.pending import PendingRequest, Targets
from tests import tiny


class FakeRequest(PendingRequest):
    """A request that has only sizes; no event loop waits for its answers."""

    def __init__(self, count: int, rows: int = 1, hypotheses: int = 1) -> None:
        self._sizes = count, rows, hypotheses

    count = property(lambda self: self._sizes[0])  # type: ignore[assignment]
    rows = property(lambda self: self._sizes[1])  # type: ignore[assignment]
    hypotheses = property(lambda self: self._sizes[2])  # type: ignore[assignment]


def take_turns(scheduler: FairScheduler) -> list[tuple[PendingRequest, int]]:
    return list(iter(scheduler.take, None))


def test_requests_take_turns() -> None:
    scheduler = FairScheduler(8)
    long, short = FakeRequest(100), FakeRequest(2)
    scheduler.add(long)
    scheduler.add(short)
    turns = [(long, 0), (short, 0), (long, 1), (short, 1), (long, 2), (long, 3)]
    assert take_turns(scheduler) == turns
    scheduler.done(long)
    assert take_turns(scheduler) == [(long, 4)]
    assert scheduler.waiting_count == 95


def test_a_request_counts_at_most_its_stated_maximum() -> None:
    """Also while its queries are decoded; answered and withdrawn queries do not count."""
    scheduler = FairScheduler(8)
    long, short = FakeRequest(20), FakeRequest(2)
    long.most_counted = 6
    scheduler.add(long)
    scheduler.add(short)
    assert scheduler.counted == 6 + 2
    assert [request for request, _ in take_turns(scheduler)].count(long) == 4
    assert scheduler.counted == 6 + 2
    scheduler.done(short)
    assert scheduler.counted == 6 + 1
    assert scheduler.remove(long) == 16
    assert scheduler.counted == 4 + 1
    for request in (long, long, long, long, short):
        scheduler.done(request)
    assert scheduler.counted == 0


def test_a_long_request_leaves_rows_for_a_later_one() -> None:
    scheduler = FairScheduler(8)
    long, late = FakeRequest(100), FakeRequest(1)
    scheduler.add(long)
    assert len(take_turns(scheduler)) == 4
    scheduler.add(late)
    assert take_turns(scheduler) == [(late, 0)]


def test_few_targets_are_scored_together() -> None:
    """A step verifies all tokens of its targets; sixteen targets would delay other requests."""

    async def make_requests() -> list[PendingRequest]:
        config = tiny.config(PredictOptions(augmentations=3))
        many = ["C"] * 40
        given = (None, Targets(many, aligned=False), Targets(many, aligned=True))
        return [PendingRequest(many, config, targets) for targets in given]

    augmented, scored, aligned = asyncio.run(make_requests())
    for request, count in ((augmented, 5), (scored, 4), (aligned, 1)):
        scheduler = FairScheduler(32)
        scheduler.add(request)
        assert len(take_turns(scheduler)) == count


def test_wide_queries_leave_rows_for_narrow_ones() -> None:
    scheduler = FairScheduler(32)
    wide = [FakeRequest(4, hypotheses=50) for _ in range(3)]
    for request in wide:
        scheduler.add(request)
    assert take_turns(scheduler) == [(wide[0], 0), (wide[1], 0)]
    narrow = FakeRequest(3)
    scheduler.add(narrow)
    assert take_turns(scheduler) == [(narrow, 0), (narrow, 1), (narrow, 2)]
    scheduler.done(wide[0])
    assert take_turns(scheduler) == [(wide[2], 0)]


def test_an_oversized_query_is_decoded_by_itself() -> None:
    scheduler = FairScheduler(4)
    huge, narrow = FakeRequest(2, rows=9, hypotheses=900), FakeRequest(1)
    scheduler.add(huge)
    assert take_turns(scheduler) == [(huge, 0)]
    scheduler.add(narrow)
    assert take_turns(scheduler) == []  # no row is left
    scheduler.done(huge)
    assert take_turns(scheduler) == [(huge, 1)]  # its turn came first


def test_a_removed_request_gets_no_turn_and_is_freed() -> None:
    scheduler = FairScheduler(4)
    request = FakeRequest(10)
    scheduler.add(request)
    assert len(take_turns(scheduler)) == 2
    assert scheduler.remove(request) == 8
    assert scheduler.remove(request) == 0
    assert (scheduler.waiting_count, scheduler.take()) == (0, None)
    scheduler.done(request)
    scheduler.done(request)
    reference = ref(request)
    del request
    assert reference() is None


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(1, 150)), max_size=12),
    st.integers(1, 10),
)
def test_every_query_gets_exactly_one_turn(
    requests: list[tuple[int, int, int]], row_count: int
) -> None:
    scheduler = FairScheduler(row_count)
    fake_requests = [FakeRequest(*values) for values in requests]
    for request in fake_requests:
        scheduler.add(request)
    under_way: deque[tuple[PendingRequest, int]] = deque()
    seen = []
    while scheduler.waiting_count or under_way:
        under_way.extend(take_turns(scheduler))
        assert under_way, "queries wait, none is under way"
        rows = sum(request.rows for request, _ in under_way)
        assert rows <= row_count or len(under_way) == 1
        seen.append(under_way.popleft())
        scheduler.done(seen[-1][0])
    expected = {(id(request), index) for request in fake_requests for index in range(request.count)}
    assert {(id(request), index) for request, index in seen} == expected
    assert len(seen) == len(expected)


def test_a_request_without_a_turn_does_not_block_free_rows() -> None:
    scheduler = FairScheduler(8)
    long, short = FakeRequest(3, rows=5), FakeRequest(1)
    scheduler.add(long)
    assert take_turns(scheduler) == [(long, 0)]
    scheduler.add(short)
    assert take_turns(scheduler) == [(short, 0)]
