"""A folder for each test of a command, in which its files are."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        yield


def write(name: str, text: str) -> None:
    """Writes a file there."""
    Path(name).write_text(text, encoding="utf-8")
