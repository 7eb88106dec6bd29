"""Reads, schedules and answers text queries that arrive at any time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from time import perf_counter
from typing import Protocol, TypeVar

from molspec._native import Decoded, Hypothesis
from molspec.common.fields import check_count
from molspec.common.task import Task
from molspec.decoding import (
    DrafterError,
    QueryStatistics,
    Request,
    Scheduler,
    Source,
    Statistics,
    Strategy,
)
from molspec.drafting import DraftContext
from molspec.engine.devices import Engine
from molspec.prediction.options import DEFAULT_BATCH_SIZE, LARGEST, PredictOptions
from molspec.prediction.queries import QueryReader
from molspec.prediction.results import (
    ALL_DROPPED,
    Prediction,
    Result,
    count_duplicates,
    merge_duplicates,
    new_elements,
    without_unchanged,
)
from molspec.prediction.strategy import forced_spec, search_spec

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

#: Cached plans, for other requests with the same options.
MOST_PLANS = 64


class DecodableModel(Protocol):
    """The interface of `Model` that a decoder needs."""

    device: str
    engine: Engine
    reader: QueryReader
    task: Task | None

    @property
    def context(self) -> DraftContext:
        """The model, as drafters are built for it."""

    def plan(self, options: PredictOptions, batch_size: int, /) -> Plan:
        """The plan for queries with these options. Raises ValueError for unsupported ones."""


class Decoder(Scheduler[Result]):
    """Answers queries that arrive at any time, each with its own options, in one running batch.

    A query takes free rows of the batch at the next `step` and leaves as soon as it is answered. An
    answer does not depend on other queries: it has the bits of `Model.predict` for the query alone.
    A query that cannot be read, or whose drafter fails, gets a Result with `error`.

    Threads may share a decoder. `submit` never waits for a step; the other methods wait for the
    step that runs. One step runs at a time.

    batch_size: spellings of queries that are decoded together.
    statistics: sums over the answered queries.

    Raises ValueError, naming the argument.
    """

    def __init__(
        self,
        model: DecodableModel,
        batch_size: int = DEFAULT_BATCH_SIZE,
        statistics: Statistics | None = None,
    ) -> None:
        batch_size = check_count("batch_size", batch_size, LARGEST["batch_size"])
        session = model.engine.session(batch_size)
        super().__init__(session, model.context.guess, batch_size, statistics)
        self._model = model
        #: With the options, by their id.
        self._plans: dict[int, tuple[PredictOptions, Plan]] = {}

    def plan(self, options: PredictOptions | None = None) -> None:
        """Prepare for queries with these options. Raises ValueError as `submit` does."""
        self._planned(options)

    def submit(
        self,
        query: str,
        options: PredictOptions | None = None,
        *,
        target: str | None = None,
        aligned: bool = False,
    ) -> int:
        """Add a query; return the ticket that its answer will have.

        options: as for `Model.predict_stream`; the decoder's batch_size replaces theirs.
        target: compute the log-probability of this target, as `Model.log_probs` does.
        aligned: take the target's likeliest spelling, as `Model.log_probs` does.

        Raises ValueError if the model cannot decode with these options. A query that cannot be read
        gets a Result with `error` at the next step.
        """
        plan = self._planned(options)
        if target is None:
            if aligned:
                raise ValueError("aligned is True: expected a target with it")
            return self.add(_QueryRequest(query, plan))
        return self.add(_TargetRequest(query, plan, target, aligned))

    def _planned(self, options: PredictOptions | None) -> Plan:
        if not isinstance(options, PredictOptions | None):
            raise ValueError(f"options is a {type(options).__name__}: expected PredictOptions")
        given = options or _DEFAULTS
        if (kept := self._plans.get(id(given))) is not None:
            return kept[1]
        plan = self._model.plan(given, self.batch_size)
        keep(self._plans, id(given), (given, plan))
        return plan


def keep(plans: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    """Add to the newest `MOST_PLANS` plans; threads may do so at once."""
    for oldest in list(plans)[: 1 - MOST_PLANS]:
        plans.pop(oldest, None)  # another thread may have dropped it
    plans[key] = value


class Plan:
    """A model's plan for queries with the same options, resolved for that model and batch size."""

    def __init__(self, model: DecodableModel, options: PredictOptions) -> None:
        self.model = model
        self.options = options
        self._strategies: dict[int, Strategy] = {}
        self.strategy()

    @property
    def is_shared(self) -> bool:
        """Whether several decoders may use it: an external drafter has state."""
        return self.strategy().drafter is None

    def strategy(self, factor: int = 1) -> Strategy:
        """The search and its drafter, with the beam width times `factor`."""
        if factor not in self._strategies:
            model, options = self.model, self.options
            max_length = options.length_limit(model.reader.spec.max_positions)
            self._strategies[factor] = search_spec(
                options.searched(factor), model.context, max_length, model.device
            )
        return self._strategies[factor]


class _TextRequest(Request[Result]):
    """A query in text, with the statistics of its decoding."""

    def __init__(self, query: str, plan: Plan, strategy: Strategy) -> None:
        super().__init__(strategy)
        self._query = query
        self._plan = plan
        self._began = 0.0
        self._spent: list[Decoded] = []

    def read(self) -> Sequence[Source]:
        """The query as the model reads it. Raises ValueError if it cannot."""
        self._began = perf_counter()
        return self._sources(self._plan.model.reader, bool(self._plan.options.canonical_queries))

    def answer(self, found: Sequence[Decoded]) -> Result | None:
        """The result; None if another spelling or a wider beam is to be decoded."""
        self._spent += found
        error = next((decoded.error for decoded in found if decoded.error), None)
        predictions = () if error else self._predictions(found)
        if predictions is None:
            return None
        error = error or (None if predictions else ALL_DROPPED)
        statistics = QueryStatistics.of(self._spent, perf_counter() - self._began)
        return Result(self._query, predictions, error, statistics, self._plan.model.task)

    def fail(self, error: Exception) -> Result:
        """A result with the error."""
        clear = isinstance(error, ValueError | DrafterError)
        message = str(error) if clear else f"{type(error).__name__}: {error}"
        return Result(self._query, error=message, task=self._plan.model.task)

    @abstractmethod
    def _sources(self, reader: QueryReader, canonical: bool) -> Sequence[Source]:
        """The sources to decode. Raises ValueError if the query cannot be read."""

    @abstractmethod
    def _predictions(self, found: Sequence[Decoded]) -> tuple[Prediction, ...] | None:
        """The result in text; None if more is to be decoded."""

    def _lists(self, found: Sequence[Decoded]) -> list[list[Prediction]]:
        return [[self._prediction(each) for each in decoded.hypotheses] for decoded in found]

    def _prediction(self, found: Hypothesis) -> Prediction:
        return Prediction(
            self._plan.model.reader.vocabulary.decode(found.token_ids),
            found.log_prob,
            found.finished,
            inclusion=found.inclusion,
            tolerated=found.tolerated,
            token_log_probs=tuple(found.token_log_probs) or None,
        )


class _QueryRequest(_TextRequest):
    """A query to be answered by predictions."""

    def __init__(self, query: str, plan: Plan) -> None:
        super().__init__(query, plan, plan.strategy())
        #: The beam's width, as a multiple of the options'.
        self._factor = 1
        #: The first spellings, for every beam; and the lists of the spellings decoded by this one.
        self._first_views: Sequence[Source] = ()
        self._decoded: list[list[Prediction]] = []

    def _sources(self, reader: QueryReader, canonical: bool) -> Sequence[Source]:
        options = self._plan.options
        count = options.augmentations if options.augment_below is None else 1
        self._first_views = reader.views(self._query, canonical, count)
        return self._first_views

    @cached_property
    def _views(self) -> Sequence[Source]:
        """All spellings. RDKit needs a millisecond for them, so a confident query skips them."""
        reader, options = self._plan.model.reader, self._plan.options
        return reader.views(self._query, bool(options.canonical_queries), options.augmentations)

    def _predictions(self, found: Sequence[Decoded]) -> tuple[Prediction, ...] | None:
        options = self._plan.options
        self._decoded += self._lists(found)
        predictions = self._listed(self._decoded)
        if self._is_unsure(predictions) and len(self._decoded) < len(self._views):
            self.sources = [self._views[len(self._decoded)]]
            return None
        if options.drops and len(predictions) < options.n_best and self._widened():
            self.sources, self._decoded = self._first_views, []
            return None
        return predictions[: options.answer_count]

    def _listed(self, lists: Sequence[Sequence[Prediction]]) -> tuple[Prediction, ...]:
        """The answers of all lists, without dropped ones."""
        options = self._plan.options
        if options.merge_duplicates and options.samples is not None:
            predictions = count_duplicates(lists[0])
        elif options.merge_duplicates or options.augmentations > 1:
            predictions = merge_duplicates(lists)
        else:
            (predictions,) = map(tuple, lists)
        if options.drop_invalid:
            predictions = tuple(each for each in predictions if each.is_valid)
        if options.drop_unchanged:
            predictions = without_unchanged(predictions, self._query)
        if options.drop_impossible:
            task = self._plan.model.task
            predictions = tuple(
                each for each in predictions if not new_elements(self._query, each.smiles, task)
            )
        return predictions

    def _is_unsure(self, predictions: Sequence[Prediction]) -> bool:
        """Whether the next spelling is to be decoded."""
        below = self._plan.options.augment_below
        return below is not None and (not predictions or math.exp(predictions[0].log_prob) < below)

    def _widened(self) -> bool:
        """Double the beam, unless that is wider than the options allow."""
        options, wider = self._plan.options, 2 * self._factor
        before, after = (options.searched(each).width for each in (self._factor, wider))
        if wider > options.max_beam_factor or after == before:
            return False
        self._factor, self.strategy = wider, self._plan.strategy(wider)
        return True


class _TargetRequest(_TextRequest):
    """A query with a given target, whose log-probability is computed."""

    def __init__(self, query: str, plan: Plan, target: str, aligned: bool) -> None:
        longest = plan.model.reader.spec.max_positions
        super().__init__(query, plan, forced_spec(plan.options, longest))
        self._target = target
        self._aligned = aligned

    def _sources(self, reader: QueryReader, canonical: bool) -> Sequence[Source]:
        return reader.pair(self._query, self._target, canonical, self._aligned)

    def _predictions(self, found: Sequence[Decoded]) -> tuple[Prediction, ...]:
        return max(map(tuple, self._lists(found)), key=lambda spelling: spelling[0].log_prob)


_DEFAULTS = PredictOptions()
