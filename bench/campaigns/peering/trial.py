"""The cost of a search for a route."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """An engine's search for a route to a target.

    Times are seconds of processor time. first: until the first route, or None if there is none;
    model_seconds: of the model, within the search. expansions: molecules that the model expanded.
    confirmed: whether `product` gives the product of each step of the route, if there is one.
    """

    engine: str
    set: str
    target: str
    limit: float
    first: float | None
    seconds: float
    model_seconds: float
    expansions: int
    confirmed: bool | None = None

    def decides(self, limit: float) -> bool:
        """Whether it decides the result of a limit: it found a route, or ran that long."""
        return self.first is not None or self.limit >= limit

    @property
    def is_ours(self) -> bool:
        """Whether it is molspec."""
        return self.engine.startswith("molspec")
