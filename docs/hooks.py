"""Hooks of the site: pages that are made of what lies elsewhere in the repository.

The README is the first page, each bundled model's card is a page, and the page of commands is what
`molspec COMMAND --help` prints.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
#: Files of the repository that are pages of the site, by their path in it.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "python/molspec/checkpoints/bundled/product/README.md": "models/product.md",
    "python/molspec/checkpoints/bundled/retro/README.md": "models/retro.md",
}
#: Folders whose page is made here.
FOLDERS = {"docs/decisions": "decisions/index.md"}
_LINK = re.compile(r"\[([^\[\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
#: What the theme would load to search where there are no workers.
_WORKER = "https://unpkg.com/iframe-worker/shim"
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    from mkdocs.structure.files import File

    texts = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in PAGES.items()}
    texts["decisions/index.md"] = decisions()
    texts["reference/commands.md"] = commands()
    texts["reference/options.md"] = options()
    texts["reference/predictions.md"] = predictions()
    texts["reference/training.md"] = training_options()
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: object, config: MkDocsConfig, files: Files) -> str:
    """Let links that lead through the repository lead through the site."""
    del config, files
    uri: str = page.file.src_uri  # type: ignore[attr-defined]
    home = next((source for source, other in PAGES.items() if other == uri), f"docs/{uri}")
    here = Path("/", home).parent

    def led(found: re.Match[str]) -> str:
        target = found[2]
        if "://" in target:
            return found[0]
        path = _resolved(here / target).relative_to("/").as_posix()
        inside = (PAGES | FOLDERS).get(path)
        if inside is None and path.startswith("docs/"):
            inside = path.removeprefix("docs/")
        if inside is None:  # a file of the repository that is not a page
            return found[1] if (ROOT / path).exists() else found[0]
        up = "../" * uri.count("/")
        return f"[{found[1]}]({up}{inside}{found[3] or ''})"

    return _LINK.sub(led, markdown)


def on_post_page(output: str, *, page: object, config: MkDocsConfig) -> str:
    """Let the page ask nobody else: what starts its search from a folder lies beside it."""
    del config
    up = "../" * page.file.src_uri.count("/")  # type: ignore[attr-defined]
    output = output.replace(_WORKER, f"{up}assets/worker.js")
    if foreign := re.findall(r'<script[^>]+src="(https?:[^"]+)"', output):
        raise ValueError(f"{page.file.src_uri}: loads {foreign}: expected none of another host")  # type: ignore[attr-defined]
    return output


def _resolved(path: Path) -> Path:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts)


def decisions() -> str:
    """The page of decisions: what was decided, in the order of the numbers."""
    records = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    titles = {each: _TITLE.search(each.read_text(encoding="utf-8")) for each in records}
    lines = [
        f"- {int(each.name[:4])}. [{title[1]}]({each.name})"
        for each, title in titles.items()
        if title
    ]
    return "\n".join(["# Decisions", "", "What was decided, and why.", "", *lines, ""])


def commands() -> str:
    """The page of commands: what each prints of itself."""
    from molspec.commands.cli import app

    whole = app.make_context("molspec", [], resilient_parsing=True)
    parts = ["# Commands\n"]
    for name in app.list_commands(whole):
        command = app.get_command(whole, name)
        text = command.get_help(command.make_context(name, [], whole, resilient_parsing=True))
        parts.append(f"## molspec {name}\n\n```text\n{text.strip()}\n```\n")
    return "\n".join(parts)


def options(kind: type[Any] | None = None) -> str:
    """The page of options: every field of `PredictOptions`, by heading."""
    from molspec.prediction.options import PredictOptions

    head = (
        "# Options\n\nFor `predict`, the command line (`--n-best`) and `/v1/predict` (all but "
        "`batch_size`).\n\n"
    )
    return head + _tables(kind or PredictOptions, "##")


def predictions(kind: type[Any] | None = None) -> str:
    """The page of predictions: every field, and the options that give it."""
    from molspec.prediction.results import answer_fields

    rows = [
        f"| `{each.name}` | `{_kind(each.kind)}` | "
        f"{', '.join(_given(name, value) for name, value in (each.by or {}).items())} | "
        f"{each.help} |"
        for each in answer_fields(kind)
    ]
    return "\n".join(
        [
            "# Predictions",
            "",
            "Fields of an answer in Python, JSON lines, tables, SDF, Parquet and `/v1`. Tables "
            "have a field's column with its options; objects leave out its default. Cells have "
            "lists as JSON.",
            "",
            "| field | type | with | |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _kind(kind: Any) -> str:
    """The name of a type; a bar would end a cell."""
    return kind.__name__ if isinstance(kind, type) else str(kind).replace(" |", " or")


def _given(name: str, value: object) -> str:
    return f"`{name}`" if value is ... else f"`{name}={value!r}`"


def training_options() -> str:
    """The page of training's settings: of data, models, draft heads and Spec-Drafters."""
    from molspec.model.spec import HeadsSpec
    from molspec.training import config

    parts = [
        "# Settings of training\n\nThe flag of `learning_rate` is `--learning-rate`. "
        "`molspec train --config FILE` also reads settings from a JSON object.\n"
    ]
    for heading, kinds in {
        "molspec prepare": (config.PrepareOptions,),
        "molspec train": (config.TrainConfig,),
        "molspec train-heads": (HeadsSpec, config.HeadsConfig),
        "molspec train-drafter": (config.SpecDrafterConfig,),
    }.items():
        parts += [f"## {heading}\n", *(_tables(kind, "###") for kind in kinds)]
    return "\n".join(parts)


def _tables(kind: type[Any], level: str) -> str:
    """A table for each group of settings."""
    described = [each for each in fields(kind) if "help" in each.metadata]
    parts: list[str] = []
    for group in dict.fromkeys(each.metadata["group"] for each in described):
        parts += [f"{level} {group}", ""] if group else []
        parts += ["| option | default | |", "|---|---|---|"]
        for each in described:
            about = each.metadata
            if about["group"] == group:
                text = " ".join(filter(None, (about["help"], about["more"])))
                default = "" if each.default is MISSING else f"`{each.default!r}`"
                parts.append(f"| `{each.name}` | {default} | {text} |")
        parts.append("")
    return "\n".join(parts)
