"""Reads, schedules and answers text queries that arrive at any time."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from time import perf_counter
from typing import Protocol

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
from molspec.drafting import AnyConfiguration, DraftContext, Drafter
from molspec.engine.devices import Engine
from molspec.prediction.config import AnyOptions, DecodeConfig
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
from molspec.prediction.strategy import forced_spec
from molspec.text import canonicalise, check_text

#: The drafters with state that a decoder keeps for further queries.
_MOST_DRAFTERS = 64


class DecodableModel(Protocol):
    """The interface of `Model` that a decoder needs."""

    device: str
    engine: Engine
    reader: QueryReader
    task: Task | None
    aligned: bool

    @property
    def context(self) -> DraftContext:
        """The model, as drafters are built for it."""

    def decode_config(self, options: AnyOptions | None, /) -> DecodeConfig:
        """The options, resolved for the model. Raises ValueError for unsupported ones."""


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
        self._strategies = _Strategies(model, batch_size)

    def plan(self, options: AnyOptions | None = None) -> None:
        """Prepare for queries with these options. Raises ValueError as `submit` does."""
        self._strategies.of(self._strategies.model.decode_config(options))

    def submit(
        self,
        query: str,
        options: AnyOptions | None = None,
        *,
        target: str | None = None,
        aligned: bool | None = None,
    ) -> int:
        """Add a query; return the ticket that its answer will have.

        options: as for `Model.predict_stream`; the decoder's batch_size replaces theirs. For many
            queries resolve them once, by `Model.decode_config`.
        target: compute the log-probability of this target, as `Model.log_probs` does.
        aligned: of its molecule, or of the target as it is spelt; by default as the model says.

        Raises ValueError if the model cannot decode with these options. A query that cannot be read
        gets a Result with `error` at the next step.
        """
        config = self._strategies.model.decode_config(options)
        if target is not None and config.options.target_prefix is not None:
            raise ValueError("target_prefix is given with a target: expected one of them")
        if target is None:
            if aligned is not None:
                raise ValueError(f"aligned is {aligned}: expected a target with it")
            return self.add(_QueryRequest(query, config, self._strategies))
        kind = _TargetRequest
        if self._strategies.model.aligned if aligned is None else aligned:
            kind = _MoleculeRequest
        return self.add(kind(query, config, self._strategies, target))


class _Strategies:
    """A decoder's strategies: queries with equal drafters share one, which has their state."""

    def __init__(self, model: DecodableModel, batch_size: int) -> None:
        self.model = model
        self._batch_size = batch_size
        #: The live drafters, by their options and the width of the beam.
        self._drafters: list[tuple[tuple[AnyConfiguration | None, int], Drafter | None]] = []

    def of(self, config: DecodeConfig, factor: int = 1) -> Strategy:
        """The search and its drafter, with the beam's width times `factor`."""
        plan = config.plan(self._batch_size, factor)
        if plan.external is None:
            return plan.strategy
        wanted = plan.external, plan.width
        found = [drafter for known, drafter in self._drafters if known == wanted]
        if not found:
            found = [plan.build(self.model.context, self._batch_size)]
            self._drafters = [*self._drafters[1 - _MOST_DRAFTERS :], (wanted, found[0])]
        return Strategy(plan.strategy.search, found[0])


class _TextRequest(Request[Result]):
    """A query in text, with the statistics of its decoding."""

    def __init__(
        self, query: str, config: DecodeConfig, model: DecodableModel, strategy: Strategy
    ) -> None:
        super().__init__(strategy)
        self._query, self._config, self._model = query, config, model
        self._began = 0.0
        self._spent: list[Decoded] = []

    def read(self) -> Sequence[Source]:
        """The query as the model reads it. Raises ValueError if it cannot."""
        self._began = perf_counter()
        return self._sources(self._model.reader, bool(self._config.canonical_queries))

    def answer(self, found: Sequence[Decoded]) -> Result | None:
        """The result; None if another spelling or a wider beam is to be decoded."""
        self._spent += found
        error = next((decoded.error for decoded in found if decoded.error), None)
        predictions = () if error else self._predictions(found)
        if predictions is None:
            return None
        error = error or (None if predictions else ALL_DROPPED)
        statistics = QueryStatistics.of(self._spent, perf_counter() - self._began)
        return Result(self._query, predictions, error, statistics, self._model.task)

    def fail(self, error: Exception) -> Result:
        """A result with the error."""
        clear = isinstance(error, ValueError | DrafterError)
        message = str(error) if clear else f"{type(error).__name__}: {error}"
        return Result(self._query, error=message, task=self._model.task)

    @abstractmethod
    def _sources(self, reader: QueryReader, canonical: bool) -> Sequence[Source]:
        """The sources to decode. Raises ValueError if the query cannot be read."""

    @abstractmethod
    def _predictions(self, found: Sequence[Decoded]) -> tuple[Prediction, ...] | None:
        """The result in text; None if more is to be decoded."""

    def _lists(self, found: Sequence[Decoded]) -> list[list[Prediction]]:
        return [[self._prediction(each) for each in decoded.hypotheses] for decoded in found]

    def _prediction(self, found: Hypothesis) -> Prediction:
        prefix = found.prefix_log_prob
        return Prediction(
            self._model.reader.vocabulary.decode(found.token_ids),
            found.log_prob,
            found.finished,
            tolerated=found.tolerated,
            log_prob_after_prefix=None if prefix is None else found.log_prob - prefix,
            token_log_probs=tuple(found.token_log_probs) or None,
        )


class _QueryRequest(_TextRequest):
    """A query to be answered by predictions."""

    def __init__(self, query: str, config: DecodeConfig, strategies: _Strategies) -> None:
        super().__init__(query, config, strategies.model, strategies.of(config))
        self._strategies = strategies
        #: The beam's width, as a multiple of the options'.
        self._factor = 1
        #: The first spellings, for every beam; and the lists of the spellings decoded by this one.
        self._first_views: Sequence[Source] = ()
        self._decoded: list[list[Prediction]] = []

    def _sources(self, reader: QueryReader, canonical: bool) -> Sequence[Source]:
        options = self._config.options
        count = options.augmentations if options.augment_below is None else 1
        self._first_views = self._spelt(count)
        return self._first_views

    @cached_property
    def _views(self) -> Sequence[Source]:
        """All spellings. RDKit needs a millisecond for them, so a confident query skips them."""
        return self._spelt(self._config.options.augmentations)

    def _spelt(self, count: int) -> Sequence[Source]:
        config, reader = self._config, self._model.reader
        canonical, prefix = bool(config.canonical_queries), config.options.target_prefix
        if prefix is None:
            return reader.views(self._query, canonical, count)
        return reader.prefixed(self._query, canonical, count, prefix, config.max_length)

    def _predictions(self, found: Sequence[Decoded]) -> tuple[Prediction, ...] | None:
        options = self._config.options
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
        options = self._config.options
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
            task = self._model.task
            predictions = tuple(
                each for each in predictions if not new_elements(self._query, each.smiles, task)
            )
        return predictions

    def _is_unsure(self, predictions: Sequence[Prediction]) -> bool:
        """Whether the next spelling is to be decoded."""
        below = self._config.options.augment_below
        return below is not None and (not predictions or math.exp(predictions[0].log_prob) < below)

    def _widened(self) -> bool:
        """Double the beam, unless that is wider than the options allow."""
        options, wider = self._config.options, 2 * self._factor
        before, after = (options.searched(each).width for each in (self._factor, wider))
        if wider > options.max_beam_factor or after == before:
            return False
        self._factor, self.strategy = wider, self._strategies.of(self._config, wider)
        return True


class _TargetRequest(_TextRequest):
    """A query with a given target, whose log-probability is computed as it is spelt."""

    def __init__(
        self, query: str, config: DecodeConfig, strategies: _Strategies, target: str
    ) -> None:
        longest = strategies.model.reader.spec.max_positions
        super().__init__(query, config, strategies.model, forced_spec(config.options, longest))
        self._target = target

    def _sources(self, reader: QueryReader, canonical: bool) -> Sequence[Source]:
        return [reader.pair(self._query, self._target, canonical)]

    def _predictions(self, found: Sequence[Decoded]) -> tuple[Prediction, ...] | None:
        return (max(chain.from_iterable(self._lists(found)), key=lambda each: each.log_prob),)


class _MoleculeRequest(_TargetRequest):
    """A query with a given molecule, whose log-probability is that of the model's spelling of it.

    That is the greedy answer if it is the molecule, so that it has the probability that `predict`
    gives it; otherwise the likeliest spelling that is aligned with the query.
    """

    def __init__(
        self, query: str, config: DecodeConfig, strategies: _Strategies, target: str
    ) -> None:
        super().__init__(query, config, strategies, target)
        self._strategies, self._forced = strategies, self.strategy
        self._molecule: str | None = None

    def _sources(self, reader: QueryReader, canonical: bool) -> Sequence[Source]:
        with suppress(ValueError):  # without atom maps, and without a last dot
            self._molecule = canonicalise(check_text(self._target).strip(" ."))
        self._target = self._molecule or self._target
        pair = reader.pair(self._query, self._target, canonical)
        if self._molecule is None:  # not a molecule, so it has no other spelling
            return [pair]
        options = PredictOptions(token_log_probs=self._config.options.token_log_probs)
        self.strategy = self._strategies.of(self._model.decode_config(options))
        return [reader.source(self._query, canonical)]

    def _predictions(self, found: Sequence[Decoded]) -> tuple[Prediction, ...] | None:
        predictions = super()._predictions(found)
        if self._molecule is None or self.strategy is self._forced:
            return predictions
        if predictions is not None and predictions[0].canonical == self._molecule:
            return predictions
        canonical = bool(self._config.canonical_queries)
        self.sources = self._model.reader.aligned_pairs(self._query, self._molecule, canonical)
        self.strategy = self._forced
        return None
