"""Whose query is next, where many requests share the rows of one batch."""

from __future__ import annotations

from collections import deque

from molspec.server.pending import PendingRequest

#: A query of more hypotheses is wide: a step with it is a long one for all others.
_NARROW = 8
#: Hypotheses of wide queries that are under way together, unless one alone has more.
_WIDE_TOGETHER = 100


class FairScheduler:
    """Requests take turns, a query each, so that a long one holds up none after it.

    A request has at most half of the rows, and wide queries together a bounded number of
    hypotheses: there is room in the next step for a short one. Among wide ones, and where rows are
    short, the order is kept, so that every query's turn comes.
    """

    def __init__(self, row_count: int) -> None:
        self._row_count = row_count
        self._waiting: deque[PendingRequest] = deque()
        #: Requests that wait or are under way.
        self._unanswered: set[PendingRequest] = set()
        self._rows_taken = 0
        self._wide_taken = 0
        #: Queries whose turn has not come.
        self.waiting_count = 0

    @property
    def counted(self) -> int:
        """Queries that are not answered, as their requests count them."""
        return sum(request.counted for request in self._unanswered)

    def add(self, request: PendingRequest) -> None:
        """Let a request wait for its turns."""
        self._waiting.append(request)
        self._unanswered.add(request)
        self.waiting_count += request.count

    def remove(self, request: PendingRequest) -> int:
        """Give no more turns to a request; return how many queries would still have had one."""
        if request not in self._waiting:
            return 0
        self._waiting.remove(request)
        left = request.count - request.next
        self.waiting_count -= left
        request.next = request.count
        if not request.under_way:
            self._unanswered.remove(request)
        return left

    def take(self) -> tuple[PendingRequest, int] | None:
        """A request and the index of its query whose turn it is, which is under way from now on."""
        lane_is_full = False
        for request in self._waiting:
            rows, hypotheses = request.rows, request.hypotheses
            if self._rows_taken and self._rows_taken + rows > self._row_count:
                return None
            if (request.under_way + 1) * rows > max(rows, self._row_count // 2):
                continue
            if hypotheses > _NARROW and (
                lane_is_full
                or (self._wide_taken and self._wide_taken + hypotheses > _WIDE_TOGETHER)
            ):
                lane_is_full = True
                continue
            index = request.next
            request.next += 1
            self.waiting_count -= 1
            self._count(request, 1)
            self._waiting.remove(request)
            if request.next < request.count:
                self._waiting.append(request)
            return request, index
        return None

    def done(self, request: PendingRequest) -> None:
        """One of its queries is no longer under way."""
        self._count(request, -1)
        if not request.under_way and request.next == request.count:
            self._unanswered.remove(request)

    def _count(self, request: PendingRequest, queries: int) -> None:
        """So many more of a request's queries are under way."""
        request.under_way += queries
        self._rows_taken += queries * request.rows
        if request.hypotheses > _NARROW:
            self._wide_taken += queries * request.hypotheses
