"""Strings in, ranked predictions out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from molspec import checkpoints, drafting
from molspec._native import Decoded, GuessModel, Hypothesis
from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.decoding import QueryStatistics, Source, Statistics, decode
from molspec.engine.devices import by_name, check_device, make_engine
from molspec.forced import ForcedSearch
from molspec.models import locate
from molspec.options import check_names
from molspec.results import Prediction, Result, Results, merge_duplicates
from molspec.strategy import DEFAULT_BATCH_SIZE, PredictOptions, Search
from molspec.text import canonical_query, check_smiles, check_text, other_spellings, tokenize

#: Tokens of a spelling, with its hydrogens and atom maps, for one of the canonical form.
_LONGEST_SPELLING = 4


class Model:
    """A model that answers queries. Made by `load`; it can be pickled and copied."""

    def __init__(self, checkpoint: Checkpoint, dtype: str = "float32", device: str = "cpu") -> None:
        self.spec = checkpoint.spec
        self.vocabulary = checkpoint.vocabulary
        self.card = checkpoint.card
        self.task = checkpoint.task
        self.canonical_queries = checkpoint.canonical_queries
        self.dtype = dtype
        self.device = device
        self.engine = make_engine(checkpoint.spec, checkpoint.weights, device, dtype)
        self._ngram = checkpoint.ngram
        #: What drafters know of the model.
        self.guess = self._guess_model()

    def _guess_model(self) -> GuessModel:
        return drafting.guess_model(self.vocabulary, self._ngram, self.spec.start_id)

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()
        del state["guess"]  # native
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.guess = self._guess_model()

    def predict(self, queries: Iterable[str], n_best: int = 1, **options: Any) -> Results:
        """Answer every query; a bad one gets a Result with `error`, the others are answered.

        queries are SMILES. The options, all by name, are those of `PredictOptions`: beam_size,
        beam, drafter, draft_length, draft_count, node_budget, length_penalty, finished, batch_size,
        max_length, merge_duplicates, canonical_queries, views.

        Raises ValueError, naming the option, where one makes no sense.
        """
        check_names("predict", options, [field.name for field in fields(PredictOptions)])
        statistics = Statistics()
        stream = self.predict_stream(queries, PredictOptions(n_best, **options), statistics)
        return Results(stream, statistics)

    def predict_stream(
        self,
        queries: Iterable[str],
        options: PredictOptions | None = None,
        statistics: Statistics | None = None,
    ) -> Iterator[Result]:
        """Answer queries read as they are needed, in their order, each as soon as it can be.

        As many as `options.batch_size` are read ahead. `statistics`, where given, is kept up to
        date. Raises ValueError as `predict` does.
        """
        _check_several("queries", queries)
        if not isinstance(options, PredictOptions | None):
            raise ValueError(f"options is a {type(options).__name__}: expected PredictOptions")
        options = self._resolved(options or PredictOptions())
        search = options.search(self.guess, options.length_limit(self.spec.max_positions))
        canonical = bool(options.canonical_queries)
        asked = (
            (query, partial(self._views, query, canonical, options.views)) for query in queries
        )
        return self._stream(asked, options, search, statistics or Statistics())

    def log_probs(self, queries: Iterable[str], targets: Iterable[str], **options: Any) -> Results:
        """Say how probable the model finds each query's target, spelt as it is.

        The result's only prediction is the target; its log_prob is, to the bit, the one that
        `predict` gives the target where it finds it, and comes of one decoder pass. A target of
        learned pieces is split as the tokenizer splits it: the model may write it in others. A
        query or a target that the model cannot read gets a Result with `error`, the others are
        answered.

        The options, all by name, are batch_size and canonical_queries of `PredictOptions`.

        Raises ValueError where queries and targets are not equally many or an option makes no
        sense.
        """
        _check_several("queries", queries)
        _check_several("targets", targets)
        queries, targets = list(queries), list(targets)
        if len(queries) != len(targets):
            raise ValueError(
                f"targets has {len(targets)} items: expected {len(queries)}, one a query"
            )
        statistics = Statistics()
        pairs = zip(queries, targets, strict=True)
        return Results(self.log_probs_stream(pairs, statistics=statistics, **options), statistics)

    def log_probs_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        canonical_queries: bool | None = None,
        statistics: Statistics | None = None,
    ) -> Iterator[Result]:
        """Answer (query, target) pairs read as they are needed, in their order; see `log_probs`."""
        _check_several("pairs", pairs, "pairs of SMILES")
        options = self._resolved(
            PredictOptions(batch_size=batch_size, canonical_queries=canonical_queries)
        )
        canonical = bool(options.canonical_queries)
        asked = (
            (query, partial(self._pair, query, target, canonical))
            for query, target in map(_two, pairs)
        )
        start_id = self.spec.decoder_start(self.vocabulary.bos_id)
        search = ForcedSearch(start_id, self.vocabulary.eos_id)
        return self._stream(asked, options, search, statistics or Statistics())

    def _resolved(self, options: PredictOptions) -> PredictOptions:
        if options.canonical_queries is None:
            options = replace(options, canonical_queries=self.canonical_queries)
        elif options.canonical_queries and not self.vocabulary.atomwise:
            raise ValueError(
                "canonical_queries is True: expected False, the model reads learned pieces of text"
            )
        if options.views > 1 and not options.canonical_queries:
            raise ValueError(
                f"views is {options.views}: expected 1 where queries are asked as they stand"
            )
        return options.on(self.device)

    def _stream(
        self,
        asked: Iterable[_Asked],
        options: PredictOptions,
        search: Search | ForcedSearch,
        statistics: Statistics,
    ) -> Iterator[Result]:
        reader = _Reader(self, asked, options)
        with torch.inference_mode(False):
            session = self.engine.session(options.batch_size)
        answers = decode(session, search, reader, options.batch_size, statistics)
        for index, decoded in _outside_inference_mode(answers):
            reader.answer(index, decoded)
            yield from reader.ready()

    def source(self, index: int, query: str, canonical: bool = False) -> Source:
        """A query as the decode loop takes it: its canonical SMILES, or the text as it is.

        Raises ValueError, saying what is wrong with the query.
        """
        text = check_text(query)
        bos_id = self.vocabulary.bos_id if self.spec.source_bos else None
        begin = [] if bos_id is None else [bos_id]
        end = [self.vocabulary.eos_id] if self.spec.source_eos else []
        longest = self.spec.max_positions - len(begin) - len(end)
        # RDKit comes after the length: deeply nested branches take it the square of their depth.
        if canonical:
            count = len(tokenize(text))
            if count > _LONGEST_SPELLING * longest:
                _check_length(count, longest)
            text = canonical_query(text)
        ids = self._encode(text, query)
        _check_length(len(ids), longest)
        if self.vocabulary.atomwise and not canonical:
            check_smiles(text)
        return Source(index, ids, [*begin, *ids, *end])

    def _views(self, query: str, canonical: bool, count: int) -> list[Source]:
        """The query, and other spellings of it as far as the model can read them."""
        views = [self.source(0, query, canonical)]
        if count > 1:
            text = self.vocabulary.decode(views[0].token_ids)
            for other in other_spellings(text, count - 1):
                with suppress(ValueError):
                    views.append(self.source(0, other))
        return views

    def _pair(self, query: str, target: str, canonical: bool) -> list[Source]:
        """A query whose target is given, as `ForcedSearch` takes it."""
        source = self.source(0, query, canonical)
        try:
            ids = self.vocabulary.encode(check_text(target))
        except ValueError as error:
            raise ValueError(f"target: {error}") from error
        bos_id = self.vocabulary.bos_id if self.spec.target_bos else None
        begin = [] if bos_id is None else [bos_id]
        longest = self.spec.max_positions - 1 - len(begin)
        _check_length(len(ids), longest, "target: ", "target")
        return [replace(source, token_ids=[*begin, *ids])]

    def _encode(self, text: str, query: str) -> list[int]:
        try:
            return self.vocabulary.encode(text)
        except ValueError as error:
            if text == query:
                raise
            raise ValueError(f"{error}, read as {text}") from error

    def result(
        self, query: str, parts: Sequence[Decoded], options: PredictOptions, seconds: float
    ) -> Result:
        """The decode loop's answers in text, `parts` one a view; `seconds` is what they took."""
        asked = any(decoded.statistics.steps for decoded in parts)
        statistics = QueryStatistics.of(parts, seconds if asked else 0.0)
        if error := next((decoded.error for decoded in parts if decoded.error), None):
            return Result(query, error=error, statistics=statistics)
        lists = [[self._prediction(each) for each in decoded.hypotheses] for decoded in parts]
        if options.merge_duplicates or options.views > 1:
            predictions = merge_duplicates(lists)[: options.n_best]
        else:
            (predictions,) = map(tuple, lists)
        return Result(query, predictions, statistics=statistics)

    def _prediction(self, found: Hypothesis) -> Prediction:
        return Prediction(self.vocabulary.decode(found.token_ids), found.log_prob, found.finished)


def _outside_inference_mode(
    answers: Iterator[tuple[int, Decoded]],
) -> Iterator[tuple[int, Decoded]]:
    """The same, wherever they are asked for: caches made inside could not be written outside."""
    while True:
        with torch.inference_mode(False):
            answer = next(answers, None)
        if answer is None:
            return
        yield answer


def _check_several(name: str, values: Iterable[object], expected: str = "SMILES") -> None:
    """Raise ValueError for one text, whose characters would be taken for queries."""
    if isinstance(values, str | bytes):
        kind = "a string" if isinstance(values, str) else "bytes"
        raise ValueError(f"{name} is {kind}: expected a list of {expected}")


def _two(pair: tuple[str, str]) -> tuple[str, str]:
    """Raise ValueError for a text, whose characters would be taken for a pair, and other sizes."""
    if isinstance(pair, str | bytes) or len(pair) != 2:
        raise ValueError(f"pairs holds {pair!r}: expected a query and a target")
    return pair


def _check_length(token_count: int, longest: int, where: str = "", side: str = "source") -> None:
    if token_count > longest:
        raise ValueError(
            f"{where}{token_count} tokens: expected at most {longest}, the model's longest {side}"
        )


#: A query, and what reads it: a Source a view, whose index is not said yet. Raises ValueError.
_Asked = tuple[str, Callable[[], Sequence[Source]]]


class _Reader:
    """Reads queries as the decode loop asks for them and puts answers back in their order.

    The loop knows views of queries only, numbered as they are read.
    """

    def __init__(self, model: Model, asked: Iterable[_Asked], options: PredictOptions) -> None:
        self._model = model
        self._options = options
        self._asked = iter(asked)
        self._read_count = 0
        self._view_count = 0
        self._next = 0
        #: The query that a view is of, and which view of it this is.
        self._views: dict[int, tuple[_Query, int]] = {}
        self._waiting: dict[int, Result] = {}

    def __iter__(self) -> Iterator[Source]:
        for text, read in self._asked:
            began = perf_counter()
            try:
                sources = read()
            except ValueError as error:
                sources = [Source(0, [], [], str(error))]
            query = _Query(self._read_count, text, began, [None] * len(sources))
            self._read_count += 1
            for view, source in enumerate(sources):
                index = self._view_count
                self._view_count += 1
                self._views[index] = query, view
                yield replace(source, index=index)

    def answer(self, index: int, decoded: Decoded) -> None:
        """Take the answer to a view."""
        query, view = self._views.pop(index)
        query.parts[view] = decoded
        parts = [part for part in query.parts if part is not None]
        if len(parts) == len(query.parts):
            seconds = perf_counter() - query.began
            result = self._model.result(query.text, parts, self._options, seconds)
            self._waiting[query.number] = result

    def ready(self) -> Iterator[Result]:
        """Hand out the answers that no earlier query holds up."""
        while self._next in self._waiting:
            yield self._waiting.pop(self._next)
            self._next += 1


@dataclass
class _Query:
    """A query under way: what is known of its views, and when it was read."""

    number: int
    text: str
    began: float
    parts: list[Decoded | None]


def load(
    name_or_path: str | Path,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = "float32",
) -> Model:
    """Load a bundled model ("product", "retro") or a checkpoint of any format that can be read.

    device: "cpu", "cuda" or "cuda:1", or torch's own object, as for dtype.
    dtype: "float32" gives PyTorch's own answers; "bfloat16" (on CUDA "float16" too) is faster and
        rounds its matrices; "int8", on the CPU, is faster still and rounds them to 255 steps.

    Raises ValueError for an unknown device or dtype, CheckpointError (a ValueError) where there is
    no such model or it is broken.
    """
    device, dtype = by_name(device), by_name(dtype)
    check_device(device, dtype)
    try:
        path = locate(name_or_path)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    checkpoint = checkpoints.read(path)
    try:
        return Model(checkpoint, dtype, device)
    except ValueError as error:  # of its n-gram model
        raise CheckpointError(f"{path}: {error}") from error
