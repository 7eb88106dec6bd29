"""The code of README, docs and notebooks: it runs, or a mark gives the reason why it does not.

A mark is a comment before the block: `<!-- not run: why -->`. Notebooks print their saved output.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import molspec
from molspec.server import app, limits, service, worker
from tests.conftest import Run
from tests.server.serving import running

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/benchmarks").glob("*.md")),
    *sorted((ROOT / "python/molspec/checkpoints/bundled").glob("*/README.md")),
    ROOT / "python/molspec/planners/common/README.md",
]
#: Kinds of blocks that hold no code.
_NOT_CODE = {"text", "ini"}
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
#: A path of the repository in running text: `decoding/round.py`.
_PATH = re.compile(r"`((?:[\w.]+/)+[\w.]*|[\w]+\.(?:py|h|cpp|inl))`")
_PLACES = ("", "python/molspec", "csrc", "docs", "tests")
_SERVER = "http://127.0.0.1:8000"

REACTIONS = [
    ("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1"),
    ("CC(=O)Cl.CCO", "CCOC(C)=O"),
    ("O=C(Cl)c1ccccc1.CN", "CNC(=O)c1ccccc1"),
]
TABLE = "".join(f"{reactants},{product}\n" for reactants, product in REACTIONS)
PAIRS = "".join(f"{reactants}>>{product}\n" for reactants, product in REACTIONS)
#: Files that the commands read.
FILES = {
    "products.smi": "CC(=O)Nc1ccccc1 acetanilide\nCCOC(C)=O ester\n",
    "reactions.csv": "id,mixture,yield\n1,CC(=O)Cl.Nc1ccccc1,93\n2,CC(=O)Cl.CCO,80\n",
    "targets.smi": "CC(=O)Nc1ccccc1\n",
    "stock.smi": "CC(=O)Cl\nNc1ccccc1\nCC(=O)OC(C)=O\nCC(=O)O\n",
    "test.csv": f"reactants,product\n{TABLE}",
    "train.tsv": f"reaction\n{PAIRS}",
    "validation.tsv": "reaction\nCC(=O)Cl.NC>>CNC(C)=O\n",
    "test.tsv": "reaction\nCCC(=O)Cl.NC>>CCC(=O)NC\n",
}


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    kind: str
    code: str
    line: int
    reason: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(each["kind"], each["code"], text[: each.start("code")].count("\n"), each["reason"])
        for each in _BLOCK.finditer(text)
    ]


def commands(code: str) -> Iterator[list[str]]:
    """The commands of a shell block."""
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server with the bundled models."""
    models = {name: molspec.load(name) for name in ("product", "retro")}
    workers = {name: worker.Worker(name, model, 8, 100) for name, model in models.items()}
    with running(app.make_app(service.Service(workers, limits.Limits()))) as url:
        yield url


def curl(words: list[str], url: str) -> None:
    (address,) = (word for word in words if word.startswith(_SERVER))
    body = words[words.index("-d") + 1].encode() if "-d" in words else None
    response = httpx.request(
        "POST" if body else "GET",
        address.replace(_SERVER, url),
        content=body,
        headers={"Content-Type": "application/json"},
        timeout=60,
    )
    assert response.status_code == 200, response.text


NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
WITH_CODE = [name for name, page in zip(NAMES, PAGES, strict=True) if blocks(page)]


@pytest.mark.parametrize("name", WITH_CODE)
def test_code_blocks_run(
    name: str,
    run: Run,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The blocks of a page run in order, in one folder and with shared names."""
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        Path(file).write_text(text)
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(ROOT / name):
        if block.reason is not None or block.kind in _NOT_CODE:
            continue
        if block.kind == "python":
            code = block.code
            if _SERVER in code:
                code = code.replace(_SERVER, request.getfixturevalue("url"))
            exec(compile("\n" * block.line + code, name, "exec"), names)
        elif block.kind == "json":
            json.loads(block.code)
        elif block.kind == "yaml":
            pytest.importorskip("yaml").safe_load(block.code)
        else:
            assert block.kind == "sh", f"{name}, line {block.line}: of no kind that runs: mark it"
            for words in commands(block.code):
                shell(words, run, lambda: request.getfixturevalue("url"))


def shell(words: list[str], run: Run, url: Callable[[], str]) -> None:
    if words[0] == "curl":
        return curl(words, url())
    assert words[0] == "molspec", f"{words}: no command that runs here: mark its block"
    if words[1] == "plan" and find_spec("syntheseus") is None:
        return None
    assert run(*words[1:]) == 0, words
    return None


@pytest.mark.parametrize("name", ["docs/tour.md", "docs/architecture.md", "CONTRIBUTING.md"])
def test_named_files_exist(name: str) -> None:
    named = set(_PATH.findall((ROOT / name).read_text(encoding="utf-8")))
    assert len(named) > 5
    missing = [
        each
        for each in sorted(named)
        if not each.startswith("build/") and not any((ROOT / p / each).exists() for p in _PLACES)
    ]
    assert not missing


def test_links_lead_to_files() -> None:
    """Links are read as in the repository; the site's build checks its own, with their anchors."""
    pages = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs/decisions").glob("*.md"))]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
        if "://" not in target
        and not (page.parent / target).exists()
        # Pages that exist only on the site.
        and not target.startswith("reference/")
    ]
    assert broken == []


def test_error_messages_match_their_page() -> None:
    """A row of the page quotes every message that is raised here, up to dots."""
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \|", page, re.M)
    quoted = [max(each.split("..."), key=len).strip() for each in rows]
    model = molspec.load("retro")
    queries = ["aspirin", "C1CC", "[Na+].[Cl-]", "C" * 600, "", "[Na+][O-]CC"]
    found = [result.error or "" for result in model.predict(queries)]
    for call in (
        lambda: model.predict("CCO"),
        lambda: model.predict(["C"], temperature=0.8),
        lambda: model.predict(["C"], drafter="heads"),
        lambda: model.predict(["C"], views=3),
        lambda: model.predict(["C"], n_best=5, beam_size=3),
        lambda: model.predict(["C"], n_best=5, verification="relaxed"),
        lambda: molspec.load("retroo"),
        lambda: molspec.load(str(ROOT / "docs")),
        lambda: molspec.load("retro", dtype="fp16"),
    ):
        with pytest.raises((ValueError, TypeError)) as raised:
            call()
        found.append(str(raised.value))
    assert [message for message in found if not any(each in message for each in quoted)] == []


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def saved_output(cell: dict[str, Any]) -> str:
    """The text that a cell had printed when the notebook was saved."""
    streams = (output for output in cell["outputs"] if output["output_type"] == "stream")
    return "".join("".join(output["text"]) for output in streams)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.name for path in NOTEBOOKS])
def test_notebook_prints_its_saved_output(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
            assert capsys.readouterr().out == saved_output(cell)


def test_all_notebooks_are_tested() -> None:
    names = ["drafter.ipynb", "first_steps.ipynb", "planner.ipynb"]
    assert [path.name for path in NOTEBOOKS] == names
