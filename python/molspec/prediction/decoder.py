"""Reads, schedules and answers text queries that arrive at any time."""

from collections.abc import Generator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from time import perf_counter
from typing import Protocol

from molspec import decoding
from molspec._native import Decoded, Hypothesis
from molspec.common.console import told
from molspec.common.fields import check_count
from molspec.common.task import Task
from molspec.drafting import AnyConfiguration, DraftContext, Drafter
from molspec.engine.devices import Engine
from molspec.prediction import queries, results
from molspec.prediction.config import AnyOptions, DecodeConfig
from molspec.prediction.options import LARGEST, PredictOptions
from molspec.prediction.results import Prediction, Result
from molspec.prediction.strategy import forced_spec
from molspec.text import rooted_spellings

#: The drafters with state that a decoder keeps for further queries.
_MOST_DRAFTERS = 64
#: The lists of answers in which the spelling of a target is looked for, by their length.
_LISTED = (1, 5, 20)
#: Beginnings of a target of several molecules that are continued.
_CONTINUED = 4


class DecodableModel(Protocol):
    """The interface of `Model` that a decoder needs."""

    device: str
    engine: Engine
    reader: queries.QueryReader
    task: Task | None

    @property
    def context(self) -> DraftContext:
        """The model, as drafters are built for it."""

    def resolve_aligned(self, aligned: bool | None, /) -> bool:
        """Whether targets are aligned, None being the model's own. Raises ValueError."""

    def decode_config(self, options: AnyOptions | None, /) -> DecodeConfig:
        """The options, resolved for the model. Raises ValueError for unsupported ones."""


class Decoder(decoding.Scheduler[Result]):
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
        batch_size: int = PredictOptions.batch_size,
        statistics: decoding.Statistics | None = None,
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
        model = self._strategies.model
        config = model.decode_config(options)
        if target is not None and config.options.target_prefix is not None:
            raise ValueError("target_prefix is given with a target: expected one of them")
        if target is None:
            if aligned is not None:
                raise ValueError(f"aligned is {aligned}: expected a target with it")
            strategy = self._strategies.of(config)
            work = _predict(query, config, self._strategies)
        else:
            strategy = self._strategies.forced(config)
            is_aligned = model.resolve_aligned(aligned)
            work = _score(query, config, self._strategies, target, is_aligned)
        answered = _answered(query, model, work)
        return self.add(decoding.Request(strategy, answered, partial(_failed, query, model)))


class _Strategies:
    """A decoder's strategies: queries with equal drafters share one, which has their state."""

    def __init__(self, model: DecodableModel, batch_size: int) -> None:
        self.model = model
        self._batch_size = batch_size
        #: The live drafters, by their options and the width of the beam.
        self._drafters: list[tuple[tuple[AnyConfiguration | None, int], Drafter | None]] = []

    def of(self, config: DecodeConfig, factor: int = 1) -> decoding.Strategy:
        """The search and its drafter, with the beam's width times `factor`."""
        plan = config.plan(self._batch_size, factor)
        if plan.external is None:
            return decoding.Strategy(plan.search)
        wanted = plan.external, plan.width
        found = [drafter for known, drafter in self._drafters if known == wanted]
        if not found:
            found = [plan.build(self.model.context, self._batch_size)]
            self._drafters = [*self._drafters[1 - _MOST_DRAFTERS :], (wanted, found[0])]
        return decoding.Strategy(plan.search, found[0])

    def forced(self, config: DecodeConfig) -> decoding.Strategy:
        """The search for given targets."""
        return decoding.Strategy(forced_spec(config.options, self.model.reader.spec.max_positions))


#: `Work` that get the predictions of each source, and return those of the query.
_Predicting = Generator[
    tuple[Sequence[decoding.Source], decoding.Strategy],
    list[list[Prediction]],
    tuple[Prediction, ...],
]


def _answered(query: str, model: DecodableModel, work: _Predicting) -> decoding.Work[Result]:
    """A query in text, with the statistics of its decoding."""
    began, spent = perf_counter(), list[Decoded]()
    asked = next(work)
    while True:
        found = yield asked
        spent += found
        predictions: tuple[Prediction, ...] = ()
        error = next((decoded.error for decoded in found if decoded.error), None)
        if not error:
            try:
                asked = work.send([[_prediction(h, model) for h in d.hypotheses] for d in found])
                continue
            except StopIteration as end:
                predictions = end.value
                error = None if predictions else results.ALL_DROPPED
        statistics = decoding.QueryStatistics.of(spent, perf_counter() - began)
        note = results.note_on(query, model.task)
        return Result(query, predictions, error, statistics, model.task, note)


def _failed(query: str, model: DecodableModel, error: Exception) -> Result:
    return Result(query, error=told(error, (ValueError, decoding.DrafterError)), task=model.task)


def _prediction(found: Hypothesis, model: DecodableModel) -> Prediction:
    prefix = found.prefix_log_prob
    return Prediction(
        model.reader.vocabulary.decode(found.token_ids),
        found.log_prob,
        found.finished,
        tolerated=found.tolerated,
        log_prob_after_prefix=None if prefix is None else found.log_prob - prefix,
        token_log_probs=tuple(found.token_log_probs) or None,
    )


def _predict(query: str, config: DecodeConfig, strategies: _Strategies) -> _Predicting:
    """The answers; from further spellings while unsure, from a wider beam if some are dropped."""
    options, model = config.options, strategies.model
    count = options.augmentations if options.augment_below is None else 1
    first = sources = _spelt(query, config, model.reader, count)
    every: Sequence[decoding.Source] = ()
    factor, lists = 1, list[list[Prediction]]()
    while True:
        lists += yield sources, strategies.of(config, factor)
        predictions = _listed(lists, query, options, model.task)
        below = options.augment_below
        if below is not None and (not predictions or predictions[0].probability < below):
            # RDKit needs a millisecond for all spellings, so a confident query skips them.
            every = every or _spelt(query, config, model.reader, options.augmentations)
            if len(lists) < len(every):
                sources = [every[len(lists)]]
                continue
        if len(predictions) < options.n_best and options.widens(factor):
            sources, factor, lists = first, 2 * factor, []
            continue
        return predictions[: options.answer_count]


def _spelt(
    query: str, config: DecodeConfig, reader: queries.QueryReader, count: int
) -> Sequence[decoding.Source]:
    canonical, prefix = bool(config.canonical_queries), config.options.target_prefix
    if prefix is None:
        return reader.views(query, canonical, count)
    return reader.prefixed(query, canonical, count, prefix, config.max_length)


def _listed(
    lists: Sequence[Sequence[Prediction]], query: str, options: PredictOptions, task: Task | None
) -> tuple[Prediction, ...]:
    """The answers of all lists, without dropped ones."""
    if options.merge_duplicates and options.samples is not None:
        predictions = results.count_duplicates(lists[0])
    elif options.merge_duplicates or options.augmentations > 1:
        predictions = results.merge_duplicates(lists)
    else:
        (predictions,) = map(tuple, lists)
    if options.drop_invalid:
        predictions = tuple(each for each in predictions if each.is_valid)
    if options.drop_unchanged:
        predictions = tuple(each for each in predictions if not results.is_unchanged(each, query))
    if options.drop_impossible:
        predictions = tuple(
            each for each in predictions if not results.new_elements(query, each.smiles, task)
        )
    return predictions


def _score(
    query: str, config: DecodeConfig, strategies: _Strategies, target: str, aligned: bool
) -> _Predicting:
    """The target with its log-probability as it is spelt, or aligned that of its molecule.

    That is of the likeliest spelling that is found: first in the model's lists of answers, so that
    it has at least the probability there, then among those that begin at each atom.
    """
    reader, model = strategies.model.reader, strategies.model
    molecule = reader.molecule(target) if aligned else None
    found: list[Prediction] = []
    if molecule is not None:  # otherwise it has no other spelling
        answers: dict[str, Prediction] = {}
        for width in _LISTED:
            options = PredictOptions(
                n_best=width,
                canonical_queries=config.canonical_queries,
                token_log_probs=config.options.token_log_probs,
            )
            listed = yield from _predict(query, model.decode_config(options), strategies)
            answers = {each.smiles: each for each in listed if each.finished} | answers
            found = [each for each in answers.values() if each.canonical == molecule]
            if found and (width > 1 or found[0].probability >= 0.5):
                break  # a spelling that is not listed is less probable
        else:
            found += yield from _rooted(query, molecule, config, strategies)
    if not found:
        pair = reader.pair(query, molecule or target, bool(config.canonical_queries))
        (found,) = yield [pair], strategies.forced(config)
    return (max(found, key=attrgetter("log_prob")),)


def _rooted(query: str, target: str, config: DecodeConfig, strategies: _Strategies) -> _Predicting:
    """Spellings that begin at each atom, with their log-probabilities; () if none can be read.

    Of several molecules the likeliest beginnings are continued with each of the others.
    """
    reader, canonical = strategies.model.reader, bool(config.canonical_queries)
    by_token = strategies.model.decode_config(PredictOptions(token_log_probs=True))
    parts = target.split(".")
    spellings = {part: rooted_spellings(part) for part in parts}
    begun = {"": parts}
    while True:
        rest = {
            f"{begin}{spelling}": parts[:place] + parts[place + 1 :]
            for begin, parts in begun.items()
            for place, part in enumerate(parts)
            for spelling in spellings[part]
        }
        sources = reader.pairs(query, rest, canonical)
        if not sources:
            return ()
        is_whole = not any(rest.values())
        lists = yield sources, strategies.forced(config if is_whole else by_token)
        every = chain.from_iterable(lists)
        if is_whole:
            return tuple(every)
        likeliest = sorted(every, key=lambda each: -sum((each.token_log_probs or ())[:-1]))
        begun = {f"{each.smiles}.": rest[each.smiles] for each in likeliest[:_CONTINUED]}
