import asyncio
from collections import deque
from weakref import ref

import pytest
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


#: The rows of a batch, and what happens: +a100x5x50 is a request a of 100 queries, of 5 rows and 50
#: hypotheses each; =a0,b0 are all turns that are taken, by requests and queries; -a is a's end of a
#: query.
TURNS = {
    "requests take turns": (8, "+a100 +b2 =a0,b0,a1,b1,a2,a3 -a =a4"),
    "a long request leaves rows for a later one": (8, "+a100 =a0,a1,a2,a3 +b1 =b0"),
    "wide queries leave rows for narrow ones": (
        32,
        "+a4x1x50 +b4x1x50 +c4x1x50 =a0,b0 +d3 =d0,d1,d2 -a =c0",
    ),
    # No row is left for b, and then a's turn came first.
    "an oversized query is decoded by itself": (4, "+a2x9x900 =a0 +b1 = -a =a1"),
    "a request without a turn does not block free rows": (8, "+a3x5 =a0 +b1 =b0"),
}


@pytest.mark.parametrize("name", TURNS)
def test_turns(name: str) -> None:
    row_count, steps = TURNS[name]
    scheduler, requests = FairScheduler(row_count), dict[str, FakeRequest]()
    for kind, what in ((step[0], step[1:]) for step in steps.split()):
        if kind == "+":
            requests[what[0]] = FakeRequest(*map(int, what[1:].split("x")))
            scheduler.add(requests[what[0]])
        elif kind == "-":
            scheduler.done(requests[what])
        else:
            expected = [(requests[each[0]], int(each[1:])) for each in what.split(",") if each]
            assert take_turns(scheduler) == expected
    queries = sum(request.count - request.next for request in requests.values())
    assert scheduler.waiting_count == queries


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
