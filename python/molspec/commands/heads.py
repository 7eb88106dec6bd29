"""The commands `distil`, `train-heads` and `train-drafter`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from molspec.commands.command import Given, argument, command
from molspec.commands.flags import TRAINING_OUTPUT
from molspec.commands.training import failures, read_model
from molspec.common.console import counted, print_out, resumable
from molspec.common.fields import setting
from molspec.model.spec import HeadsSpec
from molspec.training.config import DrafterConfig, HeadsConfig, SpecDrafterConfig

if TYPE_CHECKING:
    from molspec.checkpoints import Checkpoint
    from molspec.training.drafters import DrafterTrainer

#: Validation queries on which drafters are measured.
_TRIED = 500
_TRIED_NODES = 16

# Arguments that these commands share.
_MODEL = argument("product, retro, or the path of a checkpoint.")
_DATA = setting(MISSING, "A folder that `prepare` or `distil` wrote.")
_PAIRS = "Maximum answers to train on."
_THREADS = setting(1, "Threads on the CPU.")


@command
def distil_command(
    model: str = _MODEL,
    data: Path = _DATA,
    output: Path = TRAINING_OUTPUT,
    pairs: int = setting(100_000, "Maximum sources to answer, evenly spread."),
    threads: int = _THREADS,
) -> None:
    """Write a model's answers as training data. A smaller model can learn from them."""
    with failures(), resumable():
        from molspec.engine.ops import set_num_threads
        from molspec.prediction.model import Model
        from molspec.training import prepared
        from molspec.training.distillation import distil

        _check_apart(model, data, output, output.glob("*"))
        set_num_threads(threads)
        teacher = Model(read_model(model))
        made = distil(prepared.read(data), teacher, model, output, pairs)
    print_out(f"{len(made.train)} pairs of sources and answers of {model} written to {output}")


@command
def train_heads_command(
    model: str = _MODEL,
    data: Path = _DATA,
    output: Path = TRAINING_OUTPUT,
    pairs: int = setting(20_000, _PAIRS),
    threads: int = _THREADS,
    *,
    form: HeadsSpec,
    settings: Annotated[dict[str, Any], Given(HeadsConfig)],
) -> None:
    """Train draft heads for a model. They do not change its answers.

    The model answers the sources of the data, and the heads learn to guess its answers.
    OUTPUT/model is the model with its heads. With --joint the model is trained too, on the targets
    of the data: it becomes another model with other answers.
    """
    with failures(), resumable():
        from molspec.training.heads import HeadsTrainer

        config = HeadsConfig(heads=form, **settings)
        _train(HeadsTrainer, config, model, data, output, pairs, threads)


@command
def train_drafter_command(
    model: str = _MODEL,
    data: Path = _DATA,
    output: Path = TRAINING_OUTPUT,
    pairs: int = setting(100_000, _PAIRS),
    threads: int = _THREADS,
    *,
    settings: Annotated[dict[str, Any], Given(SpecDrafterConfig)],
) -> None:
    """Train a Spec-Drafter for a model. It does not change its answers.

    The model answers the sources of the data, unless `distil` wrote the data. The drafter learns to
    guess k tokens of an answer at once. OUTPUT/model is the model with its drafter.
    """
    with failures(), resumable():
        from molspec.training.spec_drafter import SpecDrafterTrainer

        config = SpecDrafterConfig(**settings)
        _train(SpecDrafterTrainer, config, model, data, output, pairs, threads)


def _train(
    trainer: type[DrafterTrainer],
    config: DrafterConfig,
    model: str,
    data: Path,
    output: Path,
    pairs: int,
    threads: int,
) -> None:
    """Distil, train, write the model with its drafter, and print the saved decoder calls."""
    import torch

    from molspec import checkpoints
    from molspec.engine.ops import set_num_threads
    from molspec.prediction.model import Model
    from molspec.training import prepared
    from molspec.training.distillation import distil

    places = ("state.pt", "data/*", "model/**/*")
    _check_apart(model, data, output, chain.from_iterable(map(output.glob, places)))
    checkpoint, made = read_model(model), prepared.read(data)
    trainer.check(config, checkpoint)
    if isinstance(config, HeadsConfig) and config.joint:
        made.check_model(checkpoint.vocabulary, checkpoint.task, model)
        made = replace(made, train=made.train.spread(pairs))
    else:
        set_num_threads(threads)
        made = distil(made, Model(checkpoint), model, output / "data", pairs)
    torch.set_num_threads(threads)
    output.mkdir(parents=True, exist_ok=True)
    training = trainer(checkpoint, made.train, config, output / "state.pt")
    for _ in counted(training.run(), "steps", lambda: training.config.steps, training.step_count):
        pass
    print_out(training.summary(checkpoint, made.validation))
    if (grown := training.grown(checkpoint)) is None:
        print_out("no engine runs a drafter of the published form: no model is written")
        return
    checkpoints.write(grown, output / "model", overwrite=True)
    sources = [made.vocabulary.decode(ids) for ids, _ in made.validation.spread(_TRIED).pairs()]
    _try(grown, training.name, sources)
    print_out(f"the model with its drafter is {output / 'model'}")
    if (its := grown.fingerprint(False)) != (before := checkpoint.fingerprint(False)):
        print_out(f"it is another model, {its[:8]} for {before[:8]}: its answers are others")


def _check_apart(model: str, data: Path, output: Path, written: Iterable[Path]) -> None:
    """Raise ValueError if an output file is one of the model or of the data, or among theirs."""
    from molspec import files
    from molspec.checkpoints import bundled

    read = {"MODEL": bundled.locate(model), "--data": data}
    files.check_apart(read, written)
    for name, path in read.items():
        if path.resolve() in (output.resolve(), *output.resolve().parents):
            raise ValueError(f"--output is {output}, in {name} {path}: expected another folder")


def _try(checkpoint: Checkpoint, name: str, sources: list[str]) -> None:
    """Print the decoder calls that drafters take on queries outside their training data."""
    from molspec.prediction.model import Model

    model = Model(checkpoint)
    for drafter in ("none", "tree", name):
        nodes = None if drafter == "none" else _TRIED_NODES
        found = model.predict(sources, drafter=drafter, canonical_queries=False, node_budget=nodes)
        sums = found.statistics
        print_out(f"{drafter}: {sums.query_calls / max(sums.queries, 1):.2f} decoder calls a query")
