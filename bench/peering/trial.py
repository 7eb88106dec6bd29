"""What a search for a route took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """A target that an engine's planner took.

    Seconds are processor time: the limit, until the first route, None where none was found; of the
    search, and of the model in it. expansions are molecules that the model has expanded.
    """

    engine: str
    set: str
    target: str
    limit: float
    first: float | None
    seconds: float
    model_seconds: float
    expansions: int

    def tells(self, limit: float) -> bool:
        """Whether it decides the result of a limit: it found a route, or ran that long."""
        return self.first is not None or self.limit >= limit

    @property
    def is_ours(self) -> bool:
        """Whether it is molspec."""
        return self.engine.startswith("molspec")
