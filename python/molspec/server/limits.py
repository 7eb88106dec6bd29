"""The limits of one request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from molspec.common.fields import check_fields, setting, wrong
from molspec.drafting.options import WindowDrafts
from molspec.prediction.options import PredictOptions


def _most(name: str, default: float, help: str, above: float | None = None) -> Any:  # noqa: A002
    return setting(default, help, flags=(f"--max-{name}",), above=above)


@dataclass(frozen=True)
class Limits:
    """Maximum values. Requests beyond them are refused, naming the limit, before any work.

    Raises ValueError, naming the limit.
    """

    queries: int = _most("queries", 256, "Queries of a request.")
    n_best: int = _most("n-best", 50, "Answers of a query, and samples.")
    beam_size: int = _most("beam-size", 100, "Hypotheses of a query.")
    drafted: int = _most("drafted", 1000, "Draft tokens of a hypothesis in each step.")
    augmentations: int = _most("augmentations", 20, "Spellings of a query.")
    body_bytes: int = _most("body-bytes", 1 << 20, "Bytes of a request's body.")
    seconds: float = _most(
        "seconds", 60.0, "Seconds of a request; queries not answered by then get an error.", 0
    )
    waiting: int = _most(
        "waiting",
        1024,
        "Queries of a model that wait or are decoded; further requests are refused for a while.",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.waiting < self.queries:
            raise wrong("waiting", self.waiting, f"at least that of queries, {self.queries}")

    @property
    def usual(self) -> int:
        """Answers of a query where a request of a planner says none."""
        return min(10, self.n_best, self.beam_size)

    def check_count(self, name: str, queries: Sequence[str]) -> None:
        """Raise ValueError, naming the field, for a request with more queries."""
        if len(queries) > self.queries:
            raise ValueError(
                f"{name} has {len(queries)} items: expected at most {self.queries} a request"
            )

    def check(self, options: PredictOptions) -> None:
        """Raise ValueError, naming the option, for a query beyond a limit."""
        checked = [
            ("n_best", options.n_best, self.n_best),
            ("samples", options.samples or 0, self.n_best),
            ("beam_size", options.width, self.beam_size),
            ("node_budget", options.node_budget or 0, self.drafted),
            ("augmentations", options.augmentations, self.augmentations),
        ]
        if isinstance(windows := options.configuration, WindowDrafts):  # which has defaults
            most = self.drafted // windows.draft_length
            checked += [
                ("draft_length", windows.draft_length, self.drafted),
                ("draft_count", windows.draft_count, most),
            ]
        for name, value, most in checked:
            if value > most:
                raise wrong(name, value, f"at most {most} on this server")
        if options.drops and options.searched(options.max_beam_factor).width > self.beam_size:
            raise ValueError(
                f"max_beam_factor is {options.max_beam_factor}: expected at most "
                f"{self.beam_size // options.width} with a beam of {options.width}, as this server "
                f"allows {self.beam_size} hypotheses"
            )
