"""The commands `vary`, `prepare`, `train` and `average`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from molspec.commands.command import Given, argument, command
from molspec.commands.flags import TRAINING_OUTPUT
from molspec.common.console import print_err, print_logs, print_out, resumable
from molspec.common.fields import setting
from molspec.common.workers import MOST
from molspec.training.config import PrepareOptions, TrainConfig

if TYPE_CHECKING:
    from molspec.checkpoints import Checkpoint
    from molspec.training.loop import Outcome
    from molspec.training.sieve import Judge


@command
def vary_command(
    files: list[Path] = argument("Files of mapped reactions: tables or lines."),
    count: int = setting(5, "Variations of each reaction, at most."),
    reaction_column: str | None = setting(None, "Column of reaction SMILES; found if not given."),
    seed: int = setting(0, "Seed of the random changes.", least=0),
    workers: int = setting(1, "Processes; the output stays the same.", most=MOST),
) -> None:
    """Print variations of reactions, as further training data.

    A variation has other groups far from the reaction centre.
    """
    with failures():
        from random import Random

        from molspec.common.workers import DIED, in_processes
        from molspec.training.reactions import Row, read_rows
        from molspec.training.variation import vary

        def failed(row: Row) -> list[str]:
            print_err(f"row {row.number} of {row.file}: {DIED}; it has no variations")
            return []

        def work(rows: Iterator[Row]) -> Iterator[list[str]]:
            for row in rows:
                yield vary(row.reaction, count, Random(f"{seed} {row.file} {row.number}"))

        rows = (row for file in files for row in read_rows(file, reaction_column))
        counts = []
        for found in in_processes(work, rows, workers, failed):
            counts.append(len(found))
            for reaction in found:
                print_out(reaction)
    varied = len(counts) - counts.count(0)
    hint = "" if varied else ": only reactions with atom maps have any"
    print_err(f"{sum(counts)} variations of {varied} of {len(counts)} reactions{hint}")


@command
def prepare_command(
    files: list[Path] = argument("Files of reactions: tables or lines."),
    output: Path = TRAINING_OUTPUT,
    validation: list[Path] | None = setting(None, "Files of validation reactions."),
    exclude: list[Path] | None = setting(None, "Files (test sets) whose products are left out."),
    vocabulary: str | None = setting(
        None, "Take the vocabulary of this model, to train it further."
    ),
    judge: str | None = setting(
        None, "A model whose probabilities select reactions; see --max-nats."
    ),
    *,
    options: PrepareOptions,
) -> None:
    """Make tokenised training pairs from reaction files. Bad rows are left out and listed."""
    with failures(), resumable():
        from molspec.training.preparation import prepare

        prepared = prepare(
            files,
            output,
            options,
            validation=validation or (),
            exclude=exclude or (),
            vocabulary=None if vocabulary is None else read_model(vocabulary).vocabulary,
            judge=None if judge is None else _judge(judge, options.task, options.workers),
        )
    for line in _summary(prepared.description):
        print_out(line)
    print_out(f"vocabulary: {prepared.vocabulary.size} tokens; written to {output}")
    if count := prepared.description.get("with_reagents"):
        print_err(
            f"{count} targets of reactions without atom maps seem to have reagents, whose atoms "
            "the product does not need: map the reactions, or write reagents between the arrows"
        )


def _summary(description: dict[str, Any]) -> Iterator[str]:
    """Lines that say how many rows of which files were used and rejected."""
    counts, files = description["train"], ", ".join(description["files"])
    yield f"train: {counts['reactions']} reactions, {counts['pairs']} pairs of {files}"
    if description["unmapped"]:
        alone = ": one pair each, whatever --variants is" * (description["task"] == "retro")
        yield f"not aligned: {description['unmapped']} reactions without atom maps{alone}"
    files = ", ".join(description["validation_files"]) or "the same files"
    yield f"validation: {description['validation']['reactions']} reactions of {files}"
    if description["excluded_files"]:
        files = ", ".join(description["excluded_files"])
        yield f"excluded: {description['excluded_products']} products of {files}"
    if "judge" in description:
        judged = description["judge"]
        nats = ", ".join(f"{share}: {value:g}" for share, value in judged["nats"].items())
        yield f"judge: kept {judged['kept']} of {judged['reactions']}; nats of so many: {nats}"
    for reason, count in description["rejected"].items():
        yield f"rejected: {count} x {reason}"


@command
def train_command(
    output: Path = TRAINING_OUTPUT,
    data: list[Path] | None = setting(
        None, "Folders that `prepare` wrote; validation uses the first."
    ),
    sample: bool = setting(False, "Train a tiny model on 2,000 bundled reactions."),
    config: Path | None = setting(None, "JSON file of settings."),
    start: str | None = setting(None, "A model to train further."),
    ngram: bool = setting(True, "Make the n-gram model that drafts."),
    device: str | None = setting(None, "cuda or cpu."),
    threads: int | None = setting(None, "Threads on the CPU."),
    *,
    settings: Annotated[dict[str, Any], Given(TrainConfig)],
) -> None:
    """Train a model. The same command resumes an interrupted training.

    SIGTERM and Ctrl-C save the state of a single process before they end it.
    Flags override settings of --config.
    """
    with failures():
        from molspec.training.loop import train
        from molspec.training.torchrun import joined

        print_logs("molspec.training")
        with joined() as processes:
            with processes.lead_first():
                if bool(data) == sample:
                    raise ValueError("give either --data FOLDER or --sample")
                if sample and start is not None:
                    raise ValueError("--sample trains a tiny model of its own: leave --start out")
                whole = _config(config, settings, sample)
                prepared = data or [_prepared_sample(output)]
                first = None if start is None else read_model(start)
            outcome = train(
                prepared,
                output,
                whole,
                start=first,
                device=device,
                decode=_decode,
                threads=threads,
                ngram=ngram,
            )
    if processes.is_lead:
        _print_outcome(outcome)


def _print_outcome(outcome: Outcome) -> None:
    best = outcome.best
    top_1 = "" if best.top_1 is None else f", top-1 {100 * best.top_1:.1f} %"
    print_out(f"{outcome.step_count} steps in {outcome.minutes:.1f} minutes")
    few = f": {outcome.token_count:,} tokens teach too little, tens of millions are usual"
    top_1 += few * (best.top_1 == 0 and outcome.token_count < 10_000_000)
    print_out(f"validation: token accuracy {100 * best.token_accuracy:.2f} %{top_1}")
    print_out(f"the model is {outcome.model}")


@command
def average_command(
    models: list[str] = argument("Names or folders of models with the same start."),
    output: str = setting(MISSING, "The folder to write; it must not exist."),
    share: list[float] | None = setting(None, "Weight of each model in the mean, in their order."),
) -> None:
    """Write the mean of several models' weights. It is often better than each of them."""
    with failures():
        from molspec import checkpoints
        from molspec.training.averaging import average

        mean = average([read_model(name) for name in models], share or None)
        parts = zip(models, share or [1.0] * len(models), strict=True)
        card = f"# {Path(output).name}\n\nThe mean of weights:\n\n| model | share |\n|---|---|\n"
        card += "".join(f"| {name} | {part:g} |\n" for name, part in parts)
        checkpoints.write(replace(mean, card=card), output)
    print_out(f"the model is {output}")


def _config(file: Path | None, flags: dict[str, Any], sample: bool) -> Any:
    from molspec.checkpoints.files import read_object
    from molspec.training.sample import CONFIG

    values = dict(CONFIG) if sample else {}
    for more in ({} if file is None else read_object(file), flags):
        for budget, other in (("minutes", "steps"), ("steps", "minutes")):
            if more.get(budget) is not None:
                values.pop(other, None)
        if isinstance(sizes := more.get("model"), dict):
            more = {**more, "model": {**values.get("model", {}), **sizes}}
        values |= more
    return TrainConfig.from_json(values)


def _prepared_sample(output: Path) -> Path:
    """Prepare the sample beside `output`, unless it exists."""
    from molspec.training.preparation import prepare
    from molspec.training.sample import FILE, OPTIONS

    folder = output.resolve()  # "." has no name
    folder = folder.with_name(f"{folder.name}-data")
    if not (folder / "prepared.json").exists() or (folder / "unfinished").is_dir():
        prepare([FILE], folder, OPTIONS)
    return folder


def _decode(checkpoint: Checkpoint, sources: Sequence[str]) -> list[str]:
    from molspec.prediction.model import Model

    results = Model(checkpoint).predict(sources)
    return [result.predictions[0].smiles if result.predictions else "" for result in results]


def _judge(name: str, task: str, threads: int) -> Judge:
    from molspec.checkpoints.ensemble import runs_in
    from molspec.engine.ops import set_num_threads
    from molspec.prediction.model import Model
    from molspec.training.sieve import Judge

    checkpoint = read_model(name)
    if checkpoint.task not in (None, task):
        raise ValueError(f"judge is a model of the task {checkpoint.task!r}: expected {task!r}")
    set_num_threads(threads)
    model = Model(checkpoint, runs_in([checkpoint], "cpu"))

    def log_probs(pairs: Iterable[tuple[str, str, bool]]) -> Iterator[float | None]:
        for is_aligned, alike in groupby(pairs, key=lambda pair: pair[2]):
            as_spelt = False if is_aligned else None
            texts = ((source, target) for source, target, _ in alike)
            for result in model.log_probs_stream(texts, canonical_queries=False, aligned=as_spelt):
                yield result.predictions[0].log_prob if result.predictions else None

    return Judge(f"{name}, {checkpoint.fingerprint()}", log_probs)


def read_model(name: str) -> Checkpoint:
    """Read a bundled model or a checkpoint. Raises ValueError if there is none."""
    from molspec import checkpoints
    from molspec.checkpoints import bundled

    return checkpoints.read(bundled.locate(name))


@contextmanager
def failures() -> Iterator[None]:
    """Turn the error of a training or of its workers into one line."""
    try:
        yield
    except RuntimeError as error:
        print_err(str(error))
        raise SystemExit(1) from error
