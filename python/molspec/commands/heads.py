"""The commands `distil`, `train-heads` and `train-drafter`, for the command line to register."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from molspec.commands.flags import Given, with_flags
from molspec.commands.training import failures, read_model, resumable
from molspec.console.progress import counted
from molspec.console.usage import print_out
from molspec.model.spec import HeadsSpec
from molspec.training.config import HeadsConfig, SpecDrafterConfig

if TYPE_CHECKING:
    from molspec.checkpoints import Checkpoint
    from molspec.predictor import Model
    from molspec.results import Prediction, Result
    from molspec.training.drafters import DrafterTrainer
    from molspec.training.prepared import PairTable, Prepared

# What needs torch is imported where it is used: `molspec --help` is to answer at once.

#: Validation queries on which drafters are tried.
_TRIED = 500
_TRIED_NODES = 16
#: Sources whose spellings are decoded at a time.
_CHUNK = 256

# Arguments that these commands share.
ModelArgument = Annotated[str, typer.Argument(help="product, retro, or the path of a checkpoint.")]
OutputOption = Annotated[Path, typer.Option(help="Output folder; an interrupted run resumes.")]
Pairs = Annotated[int, typer.Option(min=1, help="Train on at most so many answers.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads on the CPU.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("distil")(distil_command)
    app.command("train-heads")(train_heads_command)
    app.command("train-drafter")(train_drafter_command)


def distil_command(
    model: ModelArgument,
    data: Annotated[Path, typer.Option(help="A folder that `prepare` wrote.")],
    output: OutputOption,
    pairs: Annotated[
        int, typer.Option(min=1, help="Answer at most so many, evenly spread.")
    ] = 100_000,
    augmentations: Annotated[
        int, typer.Option(min=1, help="Spellings of each source, for one answer.")
    ] = 1,
    threads: Threads = 1,
) -> None:
    """Write prepared data whose targets are a model's own answers, to train a smaller one on.

    With --augmentations each answer combines several spellings of the source and is written as the
    model writes it to the source as given: trained on them, one spelling may learn what several
    find.
    """
    with failures(), resumable():
        _check_apart(model, data, output.glob("*"))
        made = _distilled(read_model(model), model, data, output, pairs, threads, augmentations)
    print_out(f"{len(made.train)} pairs of sources and answers of {model} written to {output}")


@with_flags
def train_heads_command(
    model: ModelArgument,
    data: Annotated[Path, typer.Option(help="A folder that `prepare` wrote.")],
    output: OutputOption,
    form: HeadsSpec,
    settings: Annotated[dict[str, Any], Given(HeadsConfig)],
    pairs: Pairs = 20_000,
    threads: Threads = 1,
) -> None:
    """Train draft heads for a model, whose answers do not change; an interrupted run resumes.

    The model answers the data's sources, the heads learn to guess its answers, and the model with
    its heads is written to OUTPUT/model. With --joint the model's own weights are trained too, on
    the data's targets as they are: what is written is another model, whose answers are others.
    """
    with failures(), resumable():
        from molspec.training.heads import HeadsTrainer

        config = HeadsConfig(heads=form, **settings)

        def trainer(checkpoint: Checkpoint, answers: PairTable, path: Path) -> HeadsTrainer:
            return HeadsTrainer(checkpoint, answers, config, path)

        _train(model, data, output, pairs, threads, trainer, on_answers=not config.joint)


@with_flags
def train_drafter_command(
    model: ModelArgument,
    data: Annotated[Path, typer.Option(help="A folder that `prepare` or `distil` wrote.")],
    output: OutputOption,
    settings: Annotated[dict[str, Any], Given(SpecDrafterConfig)],
    pairs: Pairs = 100_000,
    threads: Threads = 1,
) -> None:
    """Train a Spec-Drafter for a model, whose answers do not change; an interrupted run resumes.

    The model answers the data's sources unless they are its answers already, the drafter learns to
    guess k tokens of them at once, and the model with its drafter is written to OUTPUT/model.
    """
    with failures(), resumable():
        from molspec.training.masked import SpecDrafterTrainer

        config = SpecDrafterConfig(**settings)

        def trainer(checkpoint: Checkpoint, answers: PairTable, path: Path) -> SpecDrafterTrainer:
            return SpecDrafterTrainer(checkpoint, answers, config, path)

        _train(model, data, output, pairs, threads, trainer)


def _train(
    model: str,
    data: Path,
    output: Path,
    pairs: int,
    threads: int,
    trainer: Callable[[Checkpoint, PairTable, Path], DrafterTrainer],
    on_answers: bool = True,
) -> None:
    """Distil, train, write the model with its drafter, and say what that saves.

    on_answers: of the model; else it is trained on the data's targets.
    """
    import torch

    from molspec import checkpoints

    places = ("state.pt", "data/*", "model/**/*")
    _check_apart(model, data, chain.from_iterable(map(output.glob, places)))
    checkpoint = read_model(model)
    if on_answers:
        made = _distilled(checkpoint, model, data, output / "data", pairs, threads)
    else:
        made = _given(checkpoint, model, data, pairs)
    torch.set_num_threads(threads)
    output.mkdir(parents=True, exist_ok=True)
    training = trainer(checkpoint, made.train, output / "state.pt")
    for _ in counted(training.run(), "steps", training.config.steps, training.step_count):
        pass
    print_out(training.summary(checkpoint, made.validation))
    if (grown := training.grown(checkpoint)) is None:
        print_out("no engine runs a drafter of the published form: no model is written")
        return
    checkpoints.write(grown, output / "model", overwrite=True)
    sources = [made.vocabulary.decode(ids) for ids, _ in made.validation.spread(_TRIED).pairs()]
    _try(grown, training.names, sources)
    print_out(f"the model with its drafter is {output / 'model'}")
    if (its := grown.fingerprint(False)) != (before := checkpoint.fingerprint(False)):
        print_out(f"it is another model, {its[:8]} for {before[:8]}: its answers are others")


def _check_apart(model: str, data: Path, written: Iterable[Path]) -> None:
    """Raise ValueError where a file that is written is one of the model or of the data."""
    from molspec import files, models

    files.check_apart({"MODEL": models.locate(model), "--data": data}, written)


def _given(checkpoint: Checkpoint, name: str, data: Path, pairs: int) -> Prepared:
    """Prepared data as they are. Raises ValueError for those of another vocabulary."""
    from molspec.training import prepared

    made = prepared.read(data)
    made.check_vocabulary(checkpoint.vocabulary, name)
    return replace(made, train=made.train.spread(pairs))


def _distilled(
    checkpoint: Checkpoint,
    name: str,
    data: Path,
    output: Path,
    pairs: int,
    threads: int,
    augmentations: int = 1,
) -> Prepared:
    from molspec.ops import set_num_threads
    from molspec.predictor import Model
    from molspec.training import prepared
    from molspec.training.distillation import Teacher, distil

    made = prepared.read(data)
    set_num_threads(threads)
    in_spellings = f" in {augmentations} spellings" if augmentations > 1 else ""
    teacher = Teacher(
        name,
        checkpoint.fingerprint() + in_spellings,
        checkpoint.vocabulary,
        partial(_answers, Model(checkpoint), augmentations),
    )
    return distil(
        *(made, teacher, output, pairs),
        lambda texts, total, done: counted(texts, "answers", total, done),
    )


def _answers(model: Model, augmentations: int, texts: Iterable[str]) -> Iterator[str | None]:
    """The best answer to each source, spelt as the model would answer the source as it stands."""
    from molspec.options import PredictOptions

    as_it_stands = PredictOptions(canonical_queries=False)
    if augmentations == 1:
        found = map(_best, model.predict_stream(texts, as_it_stands))
        yield from (None if best is None else best.smiles for best in found)
        return
    texts = iter(texts)
    while chunk := list(islice(texts, _CHUNK)):
        spelt = [_best(result) for result in model.predict_stream(chunk, as_it_stands)]
        voted = [
            _best(result)
            for result in model.predict_stream(chunk, PredictOptions(augmentations=augmentations))
        ]
        molecules = [None if best is None else best.canonical for best in voted]
        strange = {
            place: (chunk[place], molecule)
            for place, (best, molecule) in enumerate(zip(spelt, molecules, strict=True))
            if molecule is not None and (best is None or best.canonical != molecule)
        }
        likeliest = model.log_probs_stream(strange.values(), canonical_queries=False, aligned=True)
        for place, result in zip(strange, likeliest, strict=True):
            spelt[place] = _best(result)
        for best, molecule in zip(spelt, molecules, strict=True):
            yield None if best is None or molecule is None else best.smiles


def _best(result: Result) -> Prediction | None:
    return result.predictions[0] if result.predictions else None


def _try(checkpoint: Checkpoint, names: tuple[str, ...], sources: list[str]) -> None:
    """Say what drafters save, on queries that they were not trained on."""
    from molspec.predictor import Model

    model = Model(checkpoint)
    for drafter in ("none", "tree", *names):
        nodes = {} if drafter == "none" else {"node_budget": _TRIED_NODES}
        results = model.predict(sources, drafter=drafter, canonical_queries=False, **nodes)
        sums = results.statistics
        print_out(f"{drafter}: {sums.query_calls / max(sums.queries, 1):.2f} decoder calls a query")
