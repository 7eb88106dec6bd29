"""The commands `info` and `convert`."""

from pathlib import Path

from molspec.commands.command import argument, command
from molspec.common import console, fields
from molspec.common.task import Task


@command
def info_command(
    model_name: str | None = argument(
        "A model; by default all bundled ones.", None, metavar="MODEL"
    ),
) -> None:
    """Show versions, the processor's kernels and models."""
    from molspec.checkpoints import bundled
    from molspec.commands import description

    console.print_out(description.installation())
    for name in [model_name] if model_name is not None else bundled.bundled_names():
        console.print_out("\n" + description.model(name))


@command
def convert_command(
    source: str = argument("A bundled model, or a checkpoint of any format."),
    destination: str = argument("The folder to write; it must not exist."),
    dtype: str | None = fields.setting(
        None, "float32, float16 or bfloat16; by default the checkpoint's own."
    ),
    vocabulary: Path | None = fields.setting(
        None, "The vocabulary of a Chemformer, if several are beside it."
    ),
    template: str | None = fields.setting(
        None,
        "The text that the model reads, with {} for the query: 'Product:{}>>'; by default the "
        "checkpoint's own.",
    ),
    task: Task | None = fields.setting(
        None,
        "Whether the model predicts reactants or products; by default what the checkpoint says, "
        "which most formats do not.",
    ),
    decoder_layers: int | None = fields.setting(
        None,
        "Write only the first decoder layers: a model that was trained with --exit-layers, cut.",
    ),
) -> None:
    """Convert a checkpoint to molspec's own format."""
    from molspec import checkpoints
    from molspec.checkpoints import bundled

    given = (dtype, vocabulary, template, task, decoder_layers)
    checkpoints.convert(bundled.locate(source), destination, *given)
