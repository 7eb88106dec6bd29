"""What a command says where it cannot go on: one line, and a status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


class UsageError(Exception):
    """The command cannot be carried out as given."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Say a line and leave with a status; what is no user's error keeps its traceback."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise typer.Exit(141) from None
    except UsageError as error:
        say(str(error))
        raise typer.Exit(2) from error
    except OSError as error:
        say(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
        raise typer.Exit(2) from error


@contextmanager
def value_errors_are_usage_errors() -> Iterator[None]:
    """Where a ValueError is one of what the command was given."""
    try:
        yield
    except ValueError as error:
        raise UsageError(error) from error


def say(message: str) -> None:
    """Write a line to standard error."""
    typer.echo(f"molspec: {' '.join(message.split())}", err=True)
