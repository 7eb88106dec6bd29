"""Strings in, ranked predictions out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from molspec import checkpoints, drafting
from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.checkpoints.bundled import locate
from molspec.checkpoints.ensemble import check_alike, members, runs_in
from molspec.common import console, fields, workers
from molspec.decoding import Statistics
from molspec.engine import devices, ensemble
from molspec.model.copying import copied_between_processes
from molspec.prediction.config import AnyOptions, DecodeConfig, Identity
from molspec.prediction.decoder import Decoder
from molspec.prediction.options import OPTION_NAMES, PredictOptions, changed, check_names
from molspec.prediction.queries import QueryReader
from molspec.prediction.results import Result, Results
from molspec.prediction.strategy import queries_together
from molspec.prediction.streams import ItemT, answers, answers_of_processes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from molspec.prediction.keywords import PredictKeywords, ScoreKeywords


@copied_between_processes
class Model:
    """A model that answers queries. Made by `load`; it can be pickled and copied.

    others: alike checkpoints whose probabilities are averaged with those of `checkpoint`, whose
        n-gram model and drafters draft.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: str = "float32",
        device: str = "cpu",
        others: Sequence[Checkpoint] = (),
    ) -> None:
        members = (checkpoint, *others)
        self.member_count = len(members)
        self.vocabulary = checkpoint.vocabulary
        self.card = None if others else checkpoint.card
        self.task = checkpoint.task
        self.canonical_queries = checkpoint.canonical_queries
        #: Whether targets are scored aligned by default. That also tries the canonical spelling.
        self.aligned = any(each.aligned for each in members)
        self.dtype = dtype
        self.device = device
        #: Weights and biases, embeddings counted once.
        self.parameter_count = sum(
            weight.numel() for each in members for weight in each.weights.values()
        )
        engines = [devices.make_engine(each.spec, each.weights, device, dtype) for each in members]
        self.engine: devices.Engine = ensemble.EnsembleEngine(engines) if others else engines[0]
        self.spec = self.engine.spec
        #: Everything that decides its answers beside the options: it identifies the model.
        self.identity = Identity(
            "+".join(each.fingerprint() for each in members),
            device,
            dtype,
            sum(each.packed.decoder_bytes for each in engines),
        )
        #: What `save` writes: of a compiled model, whose module is no checkpoint.
        self.compiled: Checkpoint | None = None
        self.reader = QueryReader(self.spec, self.vocabulary, checkpoint.template, self.task)
        self._ngram = checkpoint.ngram
        self._drafters = _drafters(checkpoint, dtype, device)
        _ = self.context  # checks the n-gram model

    @cached_property
    def context(self) -> drafting.DraftContext:
        """The data from which drafters are built."""
        guess = drafting.guess_model(self.vocabulary, self._ngram, self.spec.start_id)
        return drafting.DraftContext(guess, **self._drafters)

    @cached_property
    def lacks_deuterium(self) -> bool:
        """Whether the vocabulary cannot spell deuterium."""
        try:
            self.vocabulary.encode("[2H]")
        except ValueError:
            return True
        return False

    def __repr__(self) -> str:
        about = f"{self.parameter_count / 1e6:.1f} million parameters, {self.dtype}, {self.device}"
        if self.member_count > 1:
            about = f"{self.member_count} averaged, {about}"
        return f"<Model {self.task or 'of unknown task'}: {about}>"

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "context"}  # native
        return {**state, "compiled": None}  # else the weights would be sent twice

    def save(self, folder: str | Path) -> None:
        """Write a model of `molspec.compile` to a folder that `load` and `molspec serve` read.

        Raises ValueError for another model, or if the folder exists and holds something else,
        OSError if it cannot be written.
        """
        if self.compiled is None:
            raise ValueError("save: expected a model of molspec.compile, others have files")
        checkpoints.write(self.compiled, folder)

    def free_caches(self) -> None:
        """Free the caches that are stored for the next call, on the CPU at most 256 MiB."""
        self.engine.free_caches()

    def predict(
        self, queries: Iterable[str], n_best: int = 1, **options: Unpack[PredictKeywords]
    ) -> Results:
        """Answer every query. A bad query gets a Result with `error`; the others are answered.

        queries: SMILES.
        options: fields of `PredictOptions`, by name.

        Raises ValueError, naming the option, for a bad value or combination.
        """
        check_names("predict", options, OPTION_NAMES)
        statistics = Statistics()
        is_usual = not options and n_best is _DEFAULTS.n_best  # made already; others take 9 us
        made = _DEFAULTS if is_usual else PredictOptions(n_best, **options)
        return Results(self.predict_stream(queries, made, statistics), statistics)

    def predict_stream(
        self,
        queries: Iterable[str],
        options: AnyOptions | None = None,
        statistics: Statistics | None = None,
        *,
        processes: workers.Processes = 1,
    ) -> Iterator[Result]:
        """Yield the answers in the order of the queries, which are read as needed.

        In one process, at most `options.batch_size` of the queries that were read are unanswered.

        statistics: sums over the answered queries.
        processes: workers, or "all": one for each usable core. They share the weights, or the
            device, and give the answers of one process. A worker that dies is replaced. A query
            whose workers died three times gets a Result with `error`.

        Raises ValueError as `predict` does, and for several processes on a device if this process
        has used CUDA, as by an earlier prediction there: forked ones then cannot.
        """
        check_several("queries", queries)
        config = self.decode_config(options)

        def submit(decoder: Decoder, query: str) -> int:
            return decoder.submit(query, config)

        return self._answers(queries, submit, str, config, statistics, processes)

    def log_probs(
        self, queries: Iterable[str], targets: Iterable[str], **options: Unpack[ScoreKeywords]
    ) -> Results:
        """Compute the log-probability of each query's target.

        The result's only prediction is the target. Its log_prob has the bits that `predict` gives
        an answer with the same tokens. The tokenizer splits a target of learned pieces; the model
        may split it otherwise. A query or target that the model cannot read gets a Result with
        `error`; the others are answered.

        options: batch_size, canonical_queries and token_log_probs of `PredictOptions`, and
            `aligned`, by name. Aligned, the prediction is the target's molecule in the spelling
            that the model writes: if the molecule is in its list of one, 5 or 20 answers, the
            likeliest spelling there, with the probability that `predict` gives it; otherwise the
            likeliest that begins at an atom of the molecule (of several molecules, in any order).
            Plain, it is the target as it is spelt, in one decoder pass. By default `aligned` is
            the model's: true for models that were trained on root-aligned SMILES, as the bundled
            ones were. They find the canonical spelling improbable.

        Raises ValueError if queries and targets differ in number, or for a bad option.
        """
        check_several("queries", queries)
        check_several("targets", targets)
        queries, targets = list(queries), list(targets)
        fields.check_one_each("targets", targets, queries)
        statistics = Statistics()
        pairs = list(zip(queries, targets, strict=True))
        return Results(self.log_probs_stream(pairs, statistics=statistics, **options), statistics)

    def log_probs_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        batch_size: int = PredictOptions.batch_size,
        canonical_queries: bool | None = None,
        token_log_probs: bool = False,
        aligned: bool | None = None,
        statistics: Statistics | None = None,
        processes: workers.Processes = 1,
    ) -> Iterator[Result]:
        """Answer (query, target) pairs as `log_probs` does, in their order; read as needed.

        statistics and processes: as for `predict_stream`.
        """
        check_several("pairs", pairs, "pairs of SMILES")
        aligned = self.resolve_aligned(aligned)
        options = PredictOptions(
            batch_size=batch_size,
            canonical_queries=canonical_queries,
            token_log_probs=token_log_probs,
        )
        config = self.decode_config(options)

        def submit(decoder: Decoder, pair: tuple[str, str]) -> int:
            query, target = _two(pair)
            given = "" if target is None else target  # None would ask for a prediction
            return decoder.submit(query, config, target=given, aligned=aligned)

        query_of = lambda pair: _two(pair)[0]  # noqa: E731
        return self._answers(pairs, submit, query_of, config, statistics, processes)

    def resolve_aligned(self, aligned: bool | None) -> bool:
        """Whether targets are aligned, None being the model's own.

        Raises ValueError if it is not True, False or None, or targets cannot be aligned.
        """
        if fields.checked("aligned", aligned, bool | None, {}) and not self.vocabulary.atomwise:
            raise fields.wrong("aligned", True, "False, the model reads learned pieces of text")
        return self.aligned if aligned is None else aligned

    def _answers(
        self,
        items: Iterable[ItemT],
        submit: Callable[[Decoder, ItemT], int],
        query_of: Callable[[ItemT], str],
        config: DecodeConfig,
        statistics: Statistics | None,
        processes: workers.Processes,
    ) -> Iterator[Result]:
        """Answer items in their order, by a decoder of this process or of several."""
        together = queries_together(config.options, self.device)
        if self.device == "cpu" and isinstance(items, Sized):  # fewer drafts pay in larger batches
            together = max(1, min(together, len(items) * config.options.augmentations))

        def work(items: Iterable[ItemT], statistics: Statistics) -> Iterator[Result]:
            decoder = Decoder(self, together, statistics)
            decoder.plan(config)
            return answers(decoder, items, partial(submit, decoder))

        def failed(item: ItemT) -> tuple[Result, Statistics]:
            return Result(query_of(item), error=workers.DIED, task=self.task), Statistics()

        count = workers.process_count(processes)
        if count == 1:
            return work(items, statistics or Statistics())
        if self.device != "cpu":
            devices.check_forkable(self.device, processes)
        statistics = statistics or Statistics()
        return answers_of_processes(work, items, failed, count, statistics, 2 * count * together)

    def check_processes(self, processes: workers.Processes) -> int:
        """The number of processes that serve or plan. Raises ValueError for several on a device."""
        count = workers.process_count(processes)
        if count > 1 and self.device != "cpu":
            fit = f"1 on {self.device}; servers and planners share only a CPU"
            raise fields.wrong("processes", processes, fit)
        return count

    def decode_config(self, options: AnyOptions | None = None) -> DecodeConfig:
        """Options resolved for this model, with its defaults; resolved ones are checked.

        Raises ValueError, naming the option, if the model cannot decode with these options.
        """
        if isinstance(options, DecodeConfig):
            if options.identity != self.identity:
                raise ValueError(f"options are of {options.identity}: expected {self.identity}")
            return options
        if not isinstance(options, PredictOptions | None):
            raise ValueError(f"options is a {type(options).__name__}: expected PredictOptions")
        options = options or _DEFAULTS
        canonical = options.canonical_queries
        if canonical is None:
            canonical = self.canonical_queries
        elif canonical and not self.reader.reads_smiles:
            pieces = "False, the model reads learned pieces of text"
            raise fields.wrong("canonical_queries", True, pieces)
        if options.augmentations > 1 and not canonical:
            alone = "1 where queries are decoded as given"
            raise fields.wrong("augmentations", options.augmentations, alone)
        if options.drop_impossible and self.task is None:
            raise ValueError("drop_impossible is True: expected a model whose task is known")
        if options.drop_unchanged is None:
            options = changed(options, drop_unchanged=self.task == "retro")
        max_length = options.length_limit(self.spec.max_positions)
        if options.target_prefix is not None:
            self.reader.check_prefix(options.target_prefix, max_length)
        if options.drafter is not None:
            self.context.check(options.configuration)
        config = DecodeConfig(options, self.identity, canonical, max_length)
        config.plan(options.batch_size)  # the search refuses settings that do not go together
        return config


def _drafters(checkpoint: Checkpoint, dtype: str, device: str) -> dict[str, Any]:
    """The data of a checkpoint from which drafters are built, as `DraftContext` names it."""
    spec_drafter = checkpoint.spec_drafter
    with torch.device("cpu"):  # whatever torch's default device
        heads = checkpoint.heads and checkpoint.heads.open(checkpoint.spec, checkpoint.weights)
    drafters_dtype = dtype if device == "cpu" else "float32"
    return {
        "model": checkpoint.fingerprint(with_drafters=False),
        "tokens": checkpoint.vocabulary.tokens,
        "heads": heads and heads.to(torch.float32),
        "device": device,
        "spec_drafter": spec_drafter
        and drafting.SpecDrafterModel(spec_drafter, checkpoint.vocabulary, drafters_dtype),
    }


_DEFAULTS = PredictOptions()


def check_several(name: str, values: Iterable[object], expected: str = "SMILES") -> None:
    """Raise ValueError for a string, whose characters would be queries, and for None.

    Raises TypeError for a table of pandas, polars or pyarrow, or a dict, whose columns would be
    queries.
    """
    columns = values if isinstance(values, Mapping) else getattr(values, "columns", None)
    if columns is not None:
        names = list(getattr(values, "column_names", columns))  # pyarrow's columns have no names
        likely = [each for each in names if "smiles" in str(each).lower()] or names or [""]
        told = f"{name} is a {type(values).__name__} of {', '.join(map(str, names)) or 'nothing'}"
        raise TypeError(f"{told}: expected one column, as {name}[{likely[0]!r}]")
    if isinstance(values, str | bytes):
        kind = "a string" if isinstance(values, str) else "bytes"
        raise ValueError(f"{name} is {kind}: expected a list of {expected}")
    if not isinstance(values, Iterable):
        raise ValueError(f"{name} is {console.quoted(values)}: expected a list of {expected}")


def _two(pair: tuple[str, str]) -> tuple[str, str]:
    """Raise ValueError for a string, whose characters would be a pair, and for other sizes."""
    if isinstance(pair, str | bytes) or not isinstance(pair, Sized) or len(pair) != 2:
        raise ValueError(f"pairs holds {console.quoted(pair)}: expected a query and a target")
    return pair


def load(
    name_or_path: str | Path | Sequence[str | Path],
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype | None = None,
) -> Model:
    """Load a bundled model ("product", "retro") or a checkpoint of any known format.

    name_or_path: several, as a list or as "a+b", make one model: at each token it averages their
        probabilities. They may differ in size and architecture, but read and write the same tokens
        by the same conventions. Drafters are those of the first.
    device: "cpu", "cuda", "cuda:1" or a torch.device. "auto" takes the first CUDA device if it
        works with this dtype, and otherwise the CPU.
    dtype: a name or a torch.dtype. "float32" gives PyTorch's own answers. "bfloat16" is
        faster and rounds the matrices. "int8", on the CPU, is faster still and rounds them to 255
        steps. By default the one that the model names: the bundled ones int8 on the CPU and
        bfloat16 on CUDA. It is float32 if a model names none, or several name different ones.

    Raises ValueError for an unknown device or dtype. Raises CheckpointError, a ValueError, if there
    is no such model or it is broken, or if several differ in a token or a convention.
    """
    dtype = None if dtype is None else devices.by_name(dtype)
    device = devices.choose_device(device, dtype)
    names = members(name_or_path)
    paths = [locate(name) for name in names]
    with devices.on_one_torch_thread():
        # A comprehension would be a frame, and a warning of the reader would name this file.
        first, *others = map(checkpoints.read, paths)
        check_alike(names, [first, *others])
        # Its n-gram model, or the dtype that it names, may be at fault.
        with console.prefixing(f"{paths[0]}: ", CheckpointError):
            return Model(first, dtype or runs_in([first, *others], device), device, others)
