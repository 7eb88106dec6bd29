"""The command line. Statuses: 0, 1 a query failed, 2 wrong use, 130 Ctrl-C, 141 closed pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from molspec.common.console import occupy_standard_streams, one_line_errors, print_err, print_out

#: The module of each command, in the order of `molspec --help`.
_MODULES = {
    "predict": "predicting",
    "score": "predicting",
    "predict-parquet": "distributing",
    "serve": "serving",
    "plan": "planning",
    "vary": "training",
    "prepare": "training",
    "train": "training",
    "average": "training",
    "distil": "heads",
    "train-heads": "heads",
    "train-drafter": "heads",
    "evaluate": "evaluating",
    "info": "checkpoints",
    "convert": "checkpoints",
    "seal": "checkpoints",
}


class _Commands(Mapping[str, Any]):
    """Commands by name. Only the requested one is imported, so that its help is quick."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


@cache
def _command(name: str) -> Any:
    from molspec.commands.flags import Command

    module = import_module(f"molspec.commands.{_MODULES[name]}")
    program = _program()
    program.command(name, cls=Command)(getattr(module, f"{name.replace('-', '_')}_command"))
    return get_command(program)


#: Characters of a wrong value that a message shows.
_SHOWN = 40


class _Program(TyperGroup):
    """The command line, which imports commands when they are used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Commands()})


def _program(**settings: Any) -> typer.Typer:
    return typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **settings
    )


app = _program(
    cls=_Program,
    help="Run SMILES-to-SMILES transformers: fast, and exact to the bit.",
    # Typer would import pydantic to convert the None of a --help that is not given.
    context_settings={"default_map": {"help": False}},
)


def main() -> NoReturn:
    """Run the command line and end the process with its status."""
    occupy_standard_streams()
    try:
        with one_line_errors():
            status = app(prog_name="molspec", standalone_mode=False)
    except typer.Exit as error:
        status = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except Exception as error:
        # A wrong option. Typer's class for it has moved between versions, this method has not.
        if not hasattr(error, "format_message"):
            raise
        print_err(_told(error, error.format_message()))
        status = 2
    sys.exit(status)


def _told(error: Exception, message: str) -> str:
    """The message, with the value of a wrong number: pydantic, which reads them, leaves it out."""
    if (errors := getattr(error.__cause__ or error.__context__, "errors", None)) is None:
        return message
    shown = repr(str(errors()[0]["input"])[:_SHOWN])
    message = message.replace(": Value error,", ":").removesuffix(".")
    return message if shown in message else f"{message}, it is {shown}"


def _show_version(wanted: bool) -> None:
    if wanted:
        from molspec import __version__

        with one_line_errors():
            print_out(f"molspec {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        with one_line_errors():
            print_out(context.get_help())
