"""What a release says in several places is the same in all of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import molspec

ROOT = Path(__file__).parents[1]


def test_there_is_one_version() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', project, re.M) == [molspec.__version__]
    assert re.findall(r"^version: (.+)$", citation, re.M) == [molspec.__version__]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
def test_wheels_are_made_for_every_python_that_is_named() -> None:
    import tomllib

    values = tomllib.loads((ROOT / "pyproject.toml").read_text())
    prefix = "Programming Language :: Python :: 3."
    named = [
        each.removeprefix(prefix)
        for each in values["project"]["classifiers"]
        if each.startswith(prefix)
    ]
    built = values["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp3{minor}-*" for minor in named]
    assert values["project"]["requires-python"] == f">=3.{named[0]}"
