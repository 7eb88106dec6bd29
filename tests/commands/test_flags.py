from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from molspec.commands.flags import DecodingFlags, ModelFlags, with_flags
from molspec.options import PredictOptions


def test_decoding_flags_are_the_options_of_predict() -> None:
    """None is missing, and where nothing is given the defaults are the same."""
    assert [field.name for field in fields(DecodingFlags)] == [
        field.name for field in fields(PredictOptions)
    ]
    assert DecodingFlags().options() == PredictOptions()


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match="beam_size is 2: expected at least n_best 3"):
        DecodingFlags(n_best=3, beam_size=2).options()


def test_a_command_gets_the_flags_of_its_groups() -> None:
    app = typer.Typer()
    seen = []

    @app.command()
    @with_flags
    def command(
        name: Annotated[str, typer.Argument(help="A name.")],
        count: Annotated[int, typer.Option(help="A count.")] = 1,
        *,
        model: ModelFlags,
        decoding: DecodingFlags,
    ) -> None:
        """What it does."""
        seen.append((name, count, model, decoding))

    arguments = "it --count 2 --model retro --n-best 5 --beam sbs --merge-duplicates"
    assert CliRunner().invoke(app, arguments.split()).exit_code == 0
    assert CliRunner().invoke(app, ["it"]).exit_code == 0
    assert seen == [
        (
            "it",
            2,
            ModelFlags("retro"),
            DecodingFlags(n_best=5, beam="sbs", merge_duplicates=True),
        ),
        ("it", 1, ModelFlags(), DecodingFlags()),
    ]
    shown = CliRunner().invoke(app, ["--help"]).stdout
    for expected in ("What it does.", "--count", "--n-best", "--model", "A name."):
        assert expected in shown
