"""Files that state the version or the Python versions of a release agree."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import molspec

ROOT = Path(__file__).parents[1]


def test_version_is_the_same_in_every_file() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', project, re.M) == [molspec.__version__]
    assert re.findall(r"^version: (.+)$", citation, re.M) == [molspec.__version__]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
def test_wheels_are_built_for_every_listed_python() -> None:
    import tomllib

    values = tomllib.loads((ROOT / "pyproject.toml").read_text())
    prefix = "Programming Language :: Python :: 3."
    minors = [
        each.removeprefix(prefix)
        for each in values["project"]["classifiers"]
        if each.startswith(prefix)
    ]
    built = values["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp3{minor}-*" for minor in minors]
    assert values["project"]["requires-python"] == f">=3.{minors[0]}"
