"""Requests that come and go: queries submitted at any moment, answered as soon as they can be."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Lock, RLock
from time import perf_counter
from typing import Protocol

import torch

from molspec import _native
from molspec._native import Decoded, GuessModel, Hypothesis
from molspec.decoding import QueryStatistics, Requests, SearchSpec, Source, Statistics
from molspec.engine.devices import Engine
from molspec.fields import check_count
from molspec.options import DEFAULT_BATCH_SIZE, LARGEST, PredictOptions
from molspec.queries import QueryReader
from molspec.results import (
    Prediction,
    Result,
    count_duplicates,
    merge_duplicates,
    without_unchanged,
)
from molspec.strategy import search_spec
from molspec.task import Task

#: Options that are kept with their searches, for other requests.
_MOST_KNOWN = 64


class Asked(Protocol):
    """What a decoder asks: a `Model`."""

    @property
    def device(self) -> str:
        """Where its engine runs."""

    @property
    def engine(self) -> Engine:
        """What runs it."""

    @property
    def guess(self) -> GuessModel:
        """What drafters know of it."""

    @property
    def reader(self) -> QueryReader:
        """What reads queries for it."""

    @property
    def task(self) -> Task | None:
        """What it is asked for, where that is known."""

    def resolved(self, options: PredictOptions) -> PredictOptions:
        """Options with what the model decides. Raises ValueError for what it cannot do."""


@dataclass(eq=False)
class _Request:
    """A query under way: what was asked, and what is known of its views."""

    ticket: int
    query: str
    given: PredictOptions
    options: PredictOptions
    spec: SearchSpec
    target: str | None
    aligned: bool = False
    began: float = 0.0
    #: How many times as wide the beam is as was asked for, and what narrower ones took.
    factor: int = 1
    spent: list[Decoded] = field(default_factory=list)
    #: Numbers of its views among the requests of token ids, as long as they are not done.
    views: dict[int, int] = field(default_factory=dict)
    parts: dict[int, Decoded] = field(default_factory=dict)


class Decoder:
    """Answers queries that come at any moment, each with options of its own, in one running batch.

    A query takes free rows of the batch at the next `step` and leaves as soon as it is answered,
    whatever came before it. An answer does not depend on what else is under way: it is that of
    `Model.predict` alone, to the bit.

    Threads may share a decoder: `submit` never waits for a step, the other methods wait for the one
    that is being done, and steps are done one after the other.

    batch_size: spellings of queries that are decoded together.
    statistics: kept up to date, where given.

    Raises ValueError, naming the argument.
    """

    def __init__(
        self,
        model: Asked,
        batch_size: int = DEFAULT_BATCH_SIZE,
        statistics: Statistics | None = None,
    ) -> None:
        batch_size = check_count("batch_size", batch_size, LARGEST["batch_size"])
        self.batch_size = batch_size
        self.statistics = Statistics() if statistics is None else statistics
        self._model = model
        with torch.inference_mode(False):
            session = model.engine.session(batch_size)
        self._requests = Requests(session, model.guess, batch_size, self.statistics)
        self._tickets = count(1)
        self._waiting: deque[_Request] = deque()
        #: By ticket, and by number of a view.
        self._live: dict[int, _Request] = {}
        self._views: dict[int, _Request] = {}
        #: By the id of options that were given, which are held here, and the beam's factor.
        self._known: dict[tuple[int, int], tuple[PredictOptions, PredictOptions, SearchSpec]] = {}
        self._stepping = RLock()
        self._submitting = Lock()

    @property
    def live_count(self) -> int:
        """Queries that are not answered."""
        return len(self._live)

    def submit(
        self,
        query: str,
        options: PredictOptions | None = None,
        *,
        target: str | None = None,
        aligned: bool = False,
    ) -> int:
        """Ask a query; return the ticket that its answer will bear.

        options: as for `Model.predict_stream`; their batch_size is the decoder's.
        target: where given, not an answer is asked for but how probable the model finds this one,
            as `Model.log_probs` does.
        aligned: the target's likeliest spelling is asked for, see there.

        Raises ValueError where the options make no sense for the model. A query that cannot be read
        is answered with its error by the next step.
        """
        if not isinstance(options, PredictOptions | None):
            raise ValueError(f"options is a {type(options).__name__}: expected PredictOptions")
        with self._submitting:
            given = options or _DEFAULTS
            options, spec = self._resolved(given)
            spec = spec if target is None else _FORCED
            request = _Request(next(self._tickets), query, given, options, spec, target, aligned)
            self._live[request.ticket] = request
            self._waiting.append(request)
        return request.ticket

    def step(self, until_answered: bool = False) -> list[tuple[int, Result]]:
        """Do a round of all that is under way; return what is answered, with the tickets.

        until_answered: do as many as can be done at once, until a query is answered at the most:
            for who has nothing to submit meanwhile.
        """
        with self._stepping:
            if not torch.is_inference_mode_enabled():
                return self._step(until_answered)
            with torch.inference_mode(False):  # caches made inside could not be written outside
                return self._step(until_answered)

    def _step(self, until_answered: bool) -> list[tuple[int, Result]]:
        answered = self._read() if self._waiting else []
        self._requests.watch.charge("text")
        for number, decoded in self._requests.step(until_answered):
            request = self._views.pop(number)
            request.parts[request.views.pop(number)] = decoded
            if not request.views and (answer := self._answer(request)) is not None:
                answered.append((request.ticket, answer))
        return answered

    def cancel(self, ticket: int) -> None:
        """Forget a query and free its rows. Raises ValueError unless it is still to be answered."""
        with self._stepping:
            request = self._live.pop(ticket, None)
            if request is None:
                raise ValueError(f"ticket is {ticket!r}: expected one that is not answered")
            with self._submitting:  # nothing may be added while it is looked for
                if request in self._waiting:
                    self._waiting.remove(request)
            for number in request.views:
                del self._views[number]
                self._requests.cancel(number)

    def _resolved(
        self, given: PredictOptions, factor: int = 1
    ) -> tuple[PredictOptions, SearchSpec]:
        """Options with what the model decides, and their search: made once for one object."""
        if (known := self._known.get((id(given), factor))) is not None:
            return known[1:]
        model = self._model
        options = given
        if options.batch_size != self.batch_size:
            options = replace(options, batch_size=self.batch_size)
        options = model.resolved(options)
        max_length = options.length_limit(model.reader.spec.max_positions)
        spec = search_spec(options.searched(factor), model.guess, max_length, model.device)
        if len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[id(given), factor] = given, options, spec
        return options, spec

    def _read(self) -> list[tuple[int, Result]]:
        """Read as many queries as there are free rows for; return what cannot be read."""
        refused = []
        while self._requests.free_count > 0 and self._waiting:
            request = self._waiting.popleft()
            request.began = request.began or perf_counter()
            try:
                sources = self._sources(request)
            except ValueError as error:
                del self._live[request.ticket]
                refused.append((request.ticket, Result(request.query, error=str(error))))
                continue
            for view, source in enumerate(sources):
                number = self._requests.submit(source, request.spec)
                request.views[number] = view
                self._views[number] = request
        return refused

    def _sources(self, request: _Request) -> list[Source]:
        reader, options = self._model.reader, request.options
        canonical = bool(options.canonical_queries)
        if request.target is not None:
            return reader.pair(request.query, request.target, canonical, request.aligned)
        return reader.views(request.query, canonical, options.augmentations)

    def _answer(self, request: _Request) -> Result | None:
        """What was decoded, in text; None where a wider beam is to be asked."""
        parts = [request.parts[view] for view in range(len(request.parts))]
        error = next((decoded.error for decoded in parts if decoded.error), None)
        predictions = () if error else self._predictions(request, parts)
        options = request.options
        if options.drops and not error and len(predictions) < options.n_best:
            wider = 2 * request.factor
            before, after = (options.searched(each).width for each in (request.factor, wider))
            if wider <= options.max_beam_factor and after > before:
                self._ask_again(request, wider, parts)
                return None
        del self._live[request.ticket]
        statistics = QueryStatistics.of([*request.spent, *parts], perf_counter() - request.began)
        return Result(request.query, predictions, error, statistics, self._model.task)

    def _predictions(self, request: _Request, parts: list[Decoded]) -> tuple[Prediction, ...]:
        lists = [[self._prediction(each) for each in decoded.hypotheses] for decoded in parts]
        if request.target is not None:
            return max(map(tuple, lists), key=lambda spelling: spelling[0].log_prob)
        options = request.options
        if options.merge_duplicates and options.samples is not None:
            predictions = count_duplicates(lists[0])
        elif options.merge_duplicates or options.augmentations > 1:
            predictions = merge_duplicates(lists)
        else:
            (predictions,) = map(tuple, lists)
        if options.drop_invalid:
            predictions = tuple(filter(_is_valid, predictions))
        if options.drop_unchanged:
            predictions = without_unchanged(predictions, request.query)
        return predictions[: options.answer_count]

    def _ask_again(self, request: _Request, factor: int, parts: list[Decoded]) -> None:
        """Let a query wait for a wider beam, before those that have not been asked."""
        request.spent += parts
        request.parts.clear()
        request.factor = factor
        _, request.spec = self._resolved(request.given, factor)
        self._waiting.appendleft(request)

    def _prediction(self, found: Hypothesis) -> Prediction:
        text = self._model.reader.vocabulary.decode(found.token_ids)
        return Prediction(
            text,
            found.log_prob,
            found.finished,
            inclusion=found.inclusion,
            tolerated=found.tolerated,
        )


def _is_valid(prediction: Prediction) -> bool:
    return prediction.is_valid


_DEFAULTS = PredictOptions()
_FORCED = SearchSpec(_native.ForcedSpec())
