"""Whose query is next, where many requests share the rows of one batch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

#: A query of more hypotheses is wide: a step with it is a long one for all others.
_NARROW = 8
#: Hypotheses of wide queries that are under way together, unless one alone has more.
_WIDE_TOGETHER = 100


class Asked(Protocol):
    """A request as far as turns go."""

    @property
    def count(self) -> int:
        """Its queries."""

    @property
    def rows(self) -> int:
        """Rows of the batch that each takes."""

    @property
    def hypotheses(self) -> int:
        """Hypotheses that each keeps."""


AskedT = TypeVar("AskedT", bound=Asked)


@dataclass(eq=False)
class _Place(Generic[AskedT]):
    request: AskedT
    #: Its next query, and how many are under way.
    next: int = 0
    under_way: int = 0

    @property
    def is_wide(self) -> bool:
        return self.request.hypotheses > _NARROW


class FairScheduler(Generic[AskedT]):
    """Requests take turns, a query each, so that a long one holds up none after it.

    A request has at most half of the rows, and wide queries together a bounded number of
    hypotheses: there is room in the next step for a short one. Among wide ones, and where rows are
    short, the order is kept, so that every query's turn comes.
    """

    def __init__(self, row_count: int) -> None:
        self._row_count = row_count
        self._waiting: deque[_Place[AskedT]] = deque()
        self._places: dict[AskedT, _Place[AskedT]] = {}
        self._rows_taken = 0
        self._wide_taken = 0
        #: Queries whose turn has not come.
        self.waiting_count = 0

    def add(self, request: AskedT) -> None:
        """Let a request wait for its turns."""
        self._places[request] = place = _Place(request)
        self._waiting.append(place)
        self.waiting_count += request.count

    def remove(self, request: AskedT) -> int:
        """Give no more turns to a request; return how many queries would still have had one."""
        place = self._places.get(request)
        if place is None or place not in self._waiting:
            return 0
        self._waiting.remove(place)
        left = request.count - place.next
        self.waiting_count -= left
        place.next = request.count
        self._forget_where_done(place)
        return left

    def take(self) -> tuple[AskedT, int] | None:
        """A request and the index of its query whose turn it is, which is under way from now on."""
        lane_is_full = False
        for place in self._waiting:
            rows, is_wide = place.request.rows, place.is_wide
            if self._rows_taken and self._rows_taken + rows > self._row_count:
                return None
            if (place.under_way + 1) * rows > max(rows, self._row_count // 2):
                continue
            hypotheses = place.request.hypotheses
            if is_wide and (
                lane_is_full
                or (self._wide_taken and self._wide_taken + hypotheses > _WIDE_TOGETHER)
            ):
                lane_is_full = True
                continue
            return self._taken(place)
        return None

    def _taken(self, place: _Place[AskedT]) -> tuple[AskedT, int]:
        index = place.next
        place.next += 1
        place.under_way += 1
        self.waiting_count -= 1
        self._rows_taken += place.request.rows
        self._wide_taken += place.request.hypotheses * place.is_wide
        self._waiting.remove(place)
        if place.next < place.request.count:
            self._waiting.append(place)
        return place.request, index

    def done(self, request: AskedT) -> None:
        """One of its queries is no longer under way."""
        place = self._places[request]
        place.under_way -= 1
        self._rows_taken -= request.rows
        self._wide_taken -= request.hypotheses * place.is_wide
        self._forget_where_done(place)

    def _forget_where_done(self, place: _Place[AskedT]) -> None:
        if not place.under_way and place.next == place.request.count:
            del self._places[place.request]
