"""A release: its files agree, it keeps the torch that is there, and names one that cannot load."""

import re
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import torch

import molspec
from molspec.engine import ops

ROOT = Path(__file__).parents[1]


def test_version_is_the_same_in_every_file() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', project, re.M) == [molspec.__version__]
    assert re.findall(r"^version: (.+)$", citation, re.M) == [molspec.__version__]


@pytest.fixture
def values() -> Any:
    """What pyproject.toml says."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 brings it")
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_wheels_are_built_for_every_listed_python(values: Any) -> None:
    prefix = "Programming Language :: Python :: 3."
    minors = [
        each.removeprefix(prefix)
        for each in values["project"]["classifiers"]
        if each.startswith(prefix)
    ]
    built = values["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp3{minor}-*" for minor in minors]
    assert values["project"]["requires-python"] == f">=3.{minors[0]}"


def test_the_image_has_what_the_server_plans_with(values: Any) -> None:
    (installed,) = re.findall(r"\.whl\)\[(.+)\]", (ROOT / "Dockerfile").read_text())
    assert {*installed.split(",")} == {"server", "planning"}
    assert {"server", "planning"} <= values["project"]["optional-dependencies"].keys()


def test_pip_keeps_a_torch_that_is_new_enough() -> None:
    """And every other package that is there: no requirement has an upper bound."""
    needed = [each for each in requires("molspec") or () if "extra ==" not in each]
    assert "torch>=2.11" in needed
    assert not [each for each in needed if re.search("[<~!]|==", each)]


def test_a_torch_that_cannot_load_the_operators_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.so").write_bytes(b"of another torch")
    monkeypatch.setattr(ops, "_BUILT", tmp_path)
    with pytest.raises(ImportError) as caught:
        ops._load("broken.so")
    message = str(caught.value)
    assert message.startswith(f"broken.so does not load with torch {torch.__version__}: ")
    assert "file too short" in message or "invalid ELF header" in message or "dlopen" in message
    assert message.endswith(
        "; molspec needs torch 2.11 or later and was tried with 2.11 to 2.15: install one of "
        "these, or build molspec again beside this one"
    )
