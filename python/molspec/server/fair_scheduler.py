"""Chooses the next query when many requests share the rows of one batch."""

from collections import deque

from molspec.server.pending import PendingRequest

#: A query with more hypotheses is wide: it makes the step longer for all others.
_NARROW = 8


class FairScheduler:
    """Requests take turns, one query each, so that a long request does not delay later ones.

    A request has at most half of the rows, and all wide queries together a bounded number of
    hypotheses, so that the next step has room for a short request. Wide queries, and queries that
    wait for rows, are in order, so that each of them gets a turn.

    wide_together: maximum hypotheses of all wide queries in the batch, unless a single one has
        more.
    """

    def __init__(self, row_count: int, wide_together: int = 100) -> None:
        self._row_count = row_count
        self._wide_together = wide_together
        self._waiting: deque[PendingRequest] = deque()
        #: Requests that wait or are in progress.
        self._unanswered: set[PendingRequest] = set()
        self._rows_taken = 0
        self._wide_taken = 0
        #: Queries without a turn so far.
        self.waiting_count = 0

    @property
    def counted(self) -> int:
        """The number of unanswered queries, as their requests count them."""
        return sum(request.counted for request in self._unanswered)

    def add(self, request: PendingRequest) -> None:
        """Add a request, which then waits for its turns."""
        self._waiting.append(request)
        self._unanswered.add(request)
        self.waiting_count += request.count

    def remove(self, request: PendingRequest) -> int:
        """Remove a request; return the number of its queries without a turn."""
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
        """The next request and the index of its query, which is in progress from now on."""
        lane_is_full = False
        for request in self._waiting:
            rows, hypotheses = request.rows, request.hypotheses
            if (request.under_way + 1) * rows > max(rows, self._row_count // 2):
                continue
            if hypotheses > _NARROW and (
                lane_is_full
                or (self._wide_taken and self._wide_taken + hypotheses > self._wide_together)
            ):
                lane_is_full = True
                continue
            # Those after it wait too, so that it gets the rows that become free.
            if self._rows_taken and self._rows_taken + rows > self._row_count:
                return None
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
        """Note that one of its queries is finished."""
        self._count(request, -1)
        if not request.under_way and request.next == request.count:
            self._unanswered.remove(request)

    def _count(self, request: PendingRequest, queries: int) -> None:
        """Change the number of a request's queries in progress."""
        request.under_way += queries
        self._rows_taken += queries * request.rows
        if request.hypotheses > _NARROW:
            self._wide_taken += queries * request.hypotheses
