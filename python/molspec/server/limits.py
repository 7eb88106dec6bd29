"""What a server lets one request ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from molspec.options import PredictOptions


@dataclass(frozen=True)
class Limits:
    """The most of each. What is beyond is refused, by name, before any work is done.

    queries: of a request.
    n_best, beam_size, views: of a query; n_best of its samples too.
    body_bytes: of a request's body.
    seconds: until a request is answered; what is not answered then is an error of its query.
    waiting: queries of one model that are accepted and not answered; beyond, clients are asked to
        come again.

    Raises ValueError, naming the limit.
    """

    queries: int = 256
    n_best: int = 50
    beam_size: int = 100
    views: int = 20
    body_bytes: int = 1 << 20
    seconds: float = 60.0
    waiting: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(f"the limit {field.name} is {value}: expected more than 0")
        if self.waiting < self.queries:
            raise ValueError(
                f"the limit waiting is {self.waiting}: expected at least that of queries, "
                f"{self.queries}"
            )

    def check_count(self, queries: Sequence[str]) -> None:
        """Raise ValueError for a request of more queries."""
        if len(queries) > self.queries:
            raise ValueError(
                f"queries has {len(queries)} items: expected at most {self.queries} a request"
            )

    def check(self, options: PredictOptions) -> None:
        """Raise ValueError, naming the option, for a query that asks for more."""
        for name, value, most in (
            ("n_best", options.n_best, self.n_best),
            ("samples", options.samples or 0, self.n_best),
            ("beam_size", options.width, self.beam_size),
            ("views", options.views, self.views),
        ):
            if value > most:
                raise ValueError(f"{name} is {value}: expected at most {most} on this server")
        if options.drops and options.searched(options.widen).width > self.beam_size:
            raise ValueError(
                f"widen is {options.widen}: expected a beam of at most {self.beam_size} hypotheses "
                f"on this server, of {options.width}"
            )
