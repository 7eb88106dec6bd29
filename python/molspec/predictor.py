"""Strings in, ranked predictions out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from molspec import checkpoints, drafting
from molspec._native import Decoded, GreedySearch
from molspec.checkpoints import Checkpoint
from molspec.decoding import Source, Statistics, decode
from molspec.engine.native import NativeEngine
from molspec.models import locate
from molspec.text import check_smiles

#: Tokens that a prediction has at most where nothing else is asked for, EOS counted.
DEFAULT_MAX_LENGTH = 200
DEFAULT_BATCH_SIZE = 32

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Prediction:
    """One answer: SMILES as the model wrote it."""

    smiles: str
    #: Natural log of its probability: the sum over its tokens and EOS.
    log_prob: float
    #: False where max_length came before EOS.
    finished: bool = True


@dataclass(frozen=True)
class Result:
    """The answers to one query, best first, or why there are none."""

    query: str
    predictions: tuple[Prediction, ...] = ()
    error: str | None = None


class Results(list[Result]):
    """Results in the order of the queries, with what they took."""

    def __init__(self, results: Iterable[Result], statistics: Statistics) -> None:
        super().__init__(results)
        self.statistics = statistics


@dataclass(frozen=True)
class PredictOptions:
    """How to decode. Raises ValueError, naming the option, where one makes no sense."""

    n_best: int = 1
    drafter: str | drafting.Drafting = "tree"
    draft_length: int | None = None
    draft_count: int | None = None
    node_budget: int | None = None
    batch_size: int = DEFAULT_BATCH_SIZE
    max_length: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_best", "batch_size", "max_length"):
            value = getattr(self, name)
            if value is None and name == "max_length":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value!r}: expected a whole number of at least 1")
        if self.n_best > 1:
            raise ValueError(f"n_best is {self.n_best}: expected 1, greedy decoding has one answer")
        self.resolve_drafter()

    def resolve_drafter(self) -> drafting.Drafting:
        """The drafter and its options as one configuration."""
        return drafting.resolve(
            self.drafter,
            draft_length=self.draft_length,
            draft_count=self.draft_count,
            node_budget=self.node_budget,
        )


class Model:
    """A model that answers queries. Made by `load`."""

    def __init__(self, checkpoint: Checkpoint, dtype: str = "float32") -> None:
        if dtype not in _DTYPES:
            raise ValueError(f"dtype is {dtype!r}: expected {' or '.join(_DTYPES)}")
        self.spec = checkpoint.spec
        self.vocabulary = checkpoint.vocabulary
        self.card = checkpoint.card
        self.dtype = dtype
        self.engine = NativeEngine(checkpoint.spec, checkpoint.weights, _DTYPES[dtype])
        self._guess = drafting.guess_model(checkpoint.vocabulary, checkpoint.ngram)

    def predict(
        self,
        queries: Sequence[str],
        n_best: int = 1,
        drafter: str | drafting.Drafting = "tree",
        *,
        draft_length: int | None = None,
        draft_count: int | None = None,
        node_budget: int | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
        max_length: int | None = None,
    ) -> Results:
        """Answer every query; a bad one gets a Result with `error`, the others are answered.

        queries: SMILES, as the model was trained to read them.
        n_best: answers a query.
        drafter: "none", "windows" (Andronov et al.) or "tree"; it changes the time, not the
            answers. draft_length and draft_count belong to "windows", node_budget to "tree".
        batch_size: queries under way together; it changes the time, not the answers.
        max_length: tokens of an answer at most, EOS counted; 200 or the model's own limit.

        Raises ValueError, naming the argument, where an option makes no sense.
        """
        if isinstance(queries, str):
            raise ValueError("queries is a string: expected a list of SMILES")
        options = PredictOptions(
            n_best, drafter, draft_length, draft_count, node_budget, batch_size, max_length
        )
        statistics = Statistics()
        return Results(self.predict_stream(queries, options, statistics), statistics)

    def predict_stream(
        self,
        queries: Iterable[str],
        options: PredictOptions | None = None,
        statistics: Statistics | None = None,
    ) -> Iterator[Result]:
        """Answer queries read as they are needed, in their order, each as soon as it can be.

        `statistics`, where given, is kept up to date. Raises ValueError as `predict` does.
        """
        options = options or PredictOptions()
        search = GreedySearch(
            drafting.factory(options.resolve_drafter(), self._guess),
            options.batch_size,
            self._max_length(options),
        )
        return self._stream(queries, options, search, statistics or Statistics())

    def _max_length(self, options: PredictOptions) -> int:
        limit = self.spec.max_positions
        if options.max_length is None:
            return min(DEFAULT_MAX_LENGTH, limit)
        if options.max_length > limit:
            raise ValueError(
                f"max_length is {options.max_length}: expected at most {limit}, the model's own"
            )
        return options.max_length

    def _stream(
        self,
        queries: Iterable[str],
        options: PredictOptions,
        search: GreedySearch,
        statistics: Statistics,
    ) -> Iterator[Result]:
        reader = _Reader(self, queries)
        session = self.engine.session(options.batch_size)
        for index, decoded in decode(session, search, reader, options.batch_size, statistics):
            reader.answer(index, decoded)
            yield from reader.ready()
        yield from reader.ready()

    def source(self, index: int, query: str) -> Source:
        """A query as the decode loop takes it.

        Raises ValueError, saying what is wrong with the query.
        """
        ids = self.vocabulary.encode(check_smiles(query))
        begin = [self.vocabulary.bos_id] if self.spec.source_bos else []
        end = [self.vocabulary.eos_id] if self.spec.source_eos else []
        longest = self.spec.max_positions - len(begin) - len(end)
        if len(ids) > longest:
            raise ValueError(
                f"{len(ids)} tokens: expected at most {longest}, the model's longest source"
            )
        return Source(index, ids, [*begin, *ids, *end])

    def result(self, query: str, decoded: Decoded) -> Result:
        """The decode loop's answer in text."""
        predictions = tuple(
            Prediction(
                self.vocabulary.decode(hypothesis.token_ids),
                hypothesis.log_prob,
                hypothesis.finished,
            )
            for hypothesis in decoded.hypotheses
        )
        return Result(query, predictions, decoded.error or None)


class _Reader:
    """Reads queries as the decode loop asks for them and puts answers back in their order."""

    def __init__(self, model: Model, queries: Iterable[str]) -> None:
        self._model = model
        self._queries = iter(queries)
        self._read_count = 0
        self._next = 0
        self._under_way: dict[int, str] = {}
        self._waiting: dict[int, Result] = {}

    def __iter__(self) -> Iterator[Source]:
        for query in self._queries:
            index = self._read_count
            self._read_count += 1
            try:
                source = self._model.source(index, query)
            except ValueError as error:
                self._waiting[index] = Result(query, error=str(error))
            else:
                self._under_way[index] = query
                yield source

    def answer(self, index: int, decoded: Decoded) -> None:
        """Take the answer to a query."""
        self._waiting[index] = self._model.result(self._under_way.pop(index), decoded)

    def ready(self) -> Iterator[Result]:
        """Hand out the answers that no earlier query holds up."""
        while self._next in self._waiting:
            yield self._waiting.pop(self._next)
            self._next += 1


def load(name_or_path: str | Path, device: str = "cpu", dtype: str = "float32") -> Model:
    """Load a bundled model ("product", "retro") or a checkpoint of any format that can be read.

    dtype: "float32" gives PyTorch's own answers; "bfloat16" is faster and rounds its matrices.

    Raises ValueError for an unknown device or dtype, CheckpointError (a ValueError) where there is
    no such model or it is broken.
    """
    if device != "cpu":
        raise ValueError(f"device is {device!r}: expected 'cpu'")
    return Model(checkpoints.read(locate(name_or_path)), dtype)
