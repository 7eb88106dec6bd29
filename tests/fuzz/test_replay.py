"""What was found once, and a few inputs made by chance; `nox -s fuzz` does more."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.fuzz import TARGETS, target
from tests.fuzz.chance import CORPUS, inputs

#: Inputs by chance, of targets that take long for one.
_COUNTS = {"checkpoints": 60, "queries": 60, "requests": 40, "smiles": 200}


@pytest.mark.filterwarnings("ignore")  # of odd files
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_fails(name: str) -> None:
    known = len(list((CORPUS / name).glob("*")))
    run = target(name)
    for data in islice(inputs(name), known + _COUNTS.get(name, 300)):
        run(data)
