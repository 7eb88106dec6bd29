"""The command line. Statuses: 0, 1 a query failed, 2 wrong use, 130 Ctrl-C, 141 closed pipe."""

import sys
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

import click

from molspec.common import console

#: The module of each command, by the question that it answers; in the order of `molspec --help`.
_QUESTIONS = {
    "What does a reaction give, and how do I make a molecule?": {
        "predict": "predicting",
        "plan": "planning",
        "stock": "stock",
        "serve": "serving",
        "predict-parquet": "distributing",
        "plan-parquet": "distributing",
    },
    "How probable is an answer, and how good is a model?": {
        "score": "predicting",
        "evaluate": "evaluating",
    },
    "How do I train my own model?": {
        "prepare": "training",
        "vary": "training",
        "train": "training",
        "average": "training",
    },
    "How do I make a model faster?": {
        "distil": "heads",
        "train-heads": "heads",
        "train-drafter": "heads",
    },
    "What is installed, and what is in a checkpoint?": {
        "info": "checkpoints",
        "convert": "checkpoints",
    },
}
_MODULES = {name: module for commands in _QUESTIONS.values() for name, module in commands.items()}


class _Program(click.Group):
    """The command line. Only the requested command is imported, so that its help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return [*_MODULES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """The command. Raises UsageError if there is none of this name."""
        if cmd_name not in _MODULES:
            similar = get_close_matches(cmd_name, _MODULES, n=1)
            hint = f"; did you mean {similar[0]}?" if similar else ": see molspec --help"
            raise console.UsageError(f"there is no command {cmd_name!r}{hint}")
        module = import_module(f"molspec.commands.{_MODULES[cmd_name]}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their first lines, under the questions."""
        width = max(map(len, _MODULES))
        for question, names in _QUESTIONS.items():
            about = {name: self.get_command(ctx, name).get_short_help_str(70) for name in names}
            formatter.write(f"\n{question}\n")
            with formatter.indentation():
                formatter.write_dl([(f"{name:{width}}", text) for name, text in about.items()])


def _show_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        from molspec import __version__

        with console.one_line_errors():
            console.print_out(f"molspec {__version__}")
        context.exit()


@click.group(
    cls=_Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=None if __doc__ else "Python runs with -OO, without what commands say of themselves.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def app(context: click.Context) -> None:
    """Run SMILES-to-SMILES transformers: fast, and exact to the bit."""
    if context.invoked_subcommand is None:
        with console.one_line_errors():
            console.print_out(context.get_help())


def main() -> NoReturn:
    """Run the command line and end the process with its status."""
    console.occupy_standard_streams()
    try:
        with console.one_line_errors():
            status = app(prog_name="molspec", standalone_mode=False)
    except click.Abort:
        status = 130
    except click.ClickException as error:
        console.print_err(error.format_message())
        status = 2
    sys.exit(status)
