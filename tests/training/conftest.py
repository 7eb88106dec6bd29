"""Fixtures that the tests of training share."""

from pathlib import Path

import pytest

from molspec.training import PrepareOptions, prepare
from tests.training.tiny import sample_reactions


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder with about eight batches of pairs."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "reactions.smi").write_text("\n".join(sample_reactions(90)))
    options = PrepareOptions("retro", variants=1, validation_share=0.15)
    prepare([folder / "reactions.smi"], folder / "prepared", options)
    return folder / "prepared"
