import runpy
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from click.testing import CliRunner
from pydantic import create_model

from molspec.commands.command import Given, argument, command
from molspec.commands.flags import InputFlags, ModelFlags
from molspec.common.fields import http_setting, setting
from molspec.prediction.options import PredictOptions
from tests import refused


def test_a_command_gets_the_flags_of_its_groups() -> None:
    seen = []

    @command
    def tried_command(
        name: str = argument("A name."),
        count: int = setting(1, "A count."),
        *,
        model: ModelFlags,
        options: PredictOptions,
        given: Annotated[dict[str, Any], Given(InputFlags, ("column", "keep_salts"))],
    ) -> None:
        """What it does."""
        seen.append((name, count, model, options, given))

    flags = "--model a --model retro --n-best 5 --beam sbs --merge-duplicates --column x"
    for arguments, status in ((f"it --count 2 {flags}", 0), ("it", 0), ("it --id-column x", 2)):
        assert CliRunner().invoke(tried_command, arguments.split()).exit_code == status
    assert seen == [
        (
            *("it", 2, ModelFlags("a+retro")),
            *(PredictOptions(n_best=5, beam="sbs", merge_duplicates=True), {"column": "x"}),
        ),
        ("it", 1, ModelFlags(), PredictOptions(), {}),
    ]
    shown = CliRunner().invoke(tried_command, ["--help"]).stdout
    for expected in ("What it does.", "--count", "--n-best", "--model", "A name."):
        assert expected in shown


def test_a_new_option_appears_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new field becomes a flag, a field of a request's body and a row of the options page."""
    import molspec.server.schemas as schemas

    group = "Light"
    extended = make_dataclass(
        "PredictOptions",
        [
            (
                "glow",
                Literal["dim", "bright"] | None,
                http_setting(None, "How it shines.", group=group),
            ),
            ("lamp", str | None, setting(None, "The file of its lamp.", group=group)),
        ],
        bases=(PredictOptions,),
        frozen=True,
    )
    assert extended(glow="dim").glow == "dim"  # type: ignore[attr-defined]
    refused("glow is 'red': expected one of dim, bright", extended, glow="red")

    seen = []

    def tried_command(*, options: PredictOptions) -> None:
        seen.append(options)

    tried_command.__annotations__["options"] = extended
    app = command(tried_command)
    assert CliRunner().invoke(app, ["--glow", "dim", "-n", "3"]).exit_code == 0
    assert seen == [extended(3, glow="dim")]
    assert "How it shines." in CliRunner().invoke(app, ["--help"]).stdout

    monkeypatch.setattr(schemas, "PredictOptions", extended)
    body = create_model("Body", **schemas.option_fields(schemas.PredictOptions))
    properties = body.model_json_schema()["properties"]
    assert properties["glow"]["description"] == "How it shines."
    assert not {"lamp", "batch_size"} & set(properties)  # only some may be set from elsewhere

    path = Path(__file__).parents[2] / "docs" / "hooks.py"
    page = runpy.run_path(str(path))["options"](extended)
    assert "## Light" in page
    assert "| `glow` | `None` | How it shines. |" in page


def test_the_docstring_describes_every_option() -> None:
    for option in fields(PredictOptions):
        assert f"    {option.name}: {option.metadata['help']}" in (PredictOptions.__doc__ or "")
