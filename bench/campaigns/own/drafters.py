"""All drafters of a model, by name, and their counts on its queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from molspec import Model, Results
from molspec.decoding import QueryStatistics
from molspec.drafting import HeadsDraft, NoDraft, SpecDraft, TreeDraft
from molspec.drafting.options import AnyConfiguration, AnyDrafter
from molspec.prediction.strategy import paying_tree
from own.known import Known, answers

#: Tokens requested from Spec-Drafters, as in the paper.
PLACES = (5, 10, 15, 20, 25, 30)
#: The drafters that greedy decoding uses by default at batch 1 and 32.
DEFAULTS = {f"tree, the default of batch {batch}": paying_tree(batch) for batch in (1, 32)}
#: The batch size of runs that only count; their counts are those of batch 1.
TOGETHER = 32


@dataclass(frozen=True)
class Workload:
    """A model and its queries, in float32 on one thread."""

    model: Model
    queries: Sequence[str]

    def answers(self, drafter: AnyDrafter, batch: int = TOGETHER, **options: Any) -> Results:
        """The answers, greedy by default."""
        return self.model.predict(self.queries, drafter=drafter, batch_size=batch, **options)

    def first(self, count: int) -> Workload:
        """The same model with the first `count` queries."""
        return Workload(self.model, self.queries[:count])


def own(model: Model, nodes: int, places: Sequence[int] = PLACES) -> dict[str, AnyConfiguration]:
    """The drafters in the model's checkpoint, alone and with the copying tree."""
    made: dict[str, AnyConfiguration] = {}
    if model.context.heads is not None:
        made["heads"] = HeadsDraft(nodes)
        made["tree+heads"] = HeadsDraft(nodes, tree=True)
    if (spec := model.context.spec_drafter) is not None:
        most = spec._weights.k
        for k in sorted({k for k in places if k < most} | {most}):
            made[f"spec, k = {k}"] = SpecDraft(nodes, k=k)
            made[f"tree+spec, k = {k}"] = SpecDraft(nodes, k=k, tree=True)
    return made


def with_all_tokens(model: Model, nodes: int) -> dict[str, AnyConfiguration]:
    """The tree and the model's own drafters; a Spec-Drafter predicts all its tokens."""
    return {"tree": TreeDraft(nodes), **own(model, nodes, places=[])}


def compared(workload: Workload, nodes: int, places: Sequence[int]) -> dict[str, AnyDrafter]:
    """No drafter, the tree, the model's own drafters, and one that knows the answers."""
    known = answers(workload.model, workload.answers(TreeDraft(nodes)))
    return {
        "none": NoDraft(),
        **DEFAULTS,
        "tree": TreeDraft(nodes),
        **own(workload.model, nodes, places),
        "knows the answer": Known(known, nodes),
    }


@dataclass(frozen=True)
class Counts:
    """A drafter's statistics, query by query."""

    queries: Sequence[QueryStatistics]

    @classmethod
    def of(cls, workload: Workload, drafter: AnyDrafter, batch: int = TOGETHER) -> Counts:
        """Answer all queries; those that the model cannot read do not count."""
        results = workload.answers(drafter, batch)
        return cls([result.statistics for result in results if result.error is None])

    def mean(self, name: str) -> float:
        """The mean of a count over the queries."""
        return sum(self._all(name)) / len(self.queries)

    @property
    def tokens_an_iteration(self) -> float:
        """Tokens that a decoder call adds."""
        return sum(self._all("emitted_tokens")) / sum(self._all("decoder_calls"))

    @property
    def nodes_a_call(self) -> float:
        """Rows of a decoder call: the last token and its drafts."""
        return sum(self._all("nodes")) / sum(self._all("decoder_calls"))

    @property
    def saved(self) -> list[float]:
        """For each query, how many times fewer calls it needs than one a token."""
        return [each.emitted_tokens / each.decoder_calls for each in self.queries]

    def _all(self, name: str) -> list[int]:
        return [getattr(each, name) for each in self.queries]


def counted(workload: Workload, made: Mapping[str, AnyDrafter], checked: int) -> dict[str, Counts]:
    """The counts of each drafter; the first `checked` queries must have the same at batch 1.

    Raises ValueError if they do not.
    """
    few = workload.first(checked)
    for name, drafter in made.items():
        alone, together = (Counts.of(few, drafter, batch) for batch in (1, TOGETHER))
        for mine, other in zip(alone.queries, together.queries, strict=True):
            if _without_seconds(mine) != _without_seconds(other):
                raise ValueError(f"{name}: {mine} at batch 1, {other} at batch {TOGETHER}")
    return {name: Counts.of(workload, drafter) for name, drafter in made.items()}


def _without_seconds(counts: QueryStatistics) -> dict[str, Any]:
    return {name: value for name, value in vars(counts).items() if name != "seconds"}


def rows(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table, its head first; all columns but the first are numbers."""
    head, *others = cells
    yield f"| {' | '.join(head)} |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in others:
        yield f"| {' | '.join(row)} |"
