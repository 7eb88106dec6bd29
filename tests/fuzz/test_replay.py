"""Runs the corpus and a few random inputs; `nox -s fuzz` runs more."""

from itertools import islice

import pytest

from tests.fuzz import CORPUS, TARGETS, inputs, target

#: Numbers of random inputs for slow targets.
_COUNTS = {
    "checkpoints": 60,
    "queries": 60,
    "requests": 40,
    "smiles": 200,
    "expressions": 15,
    "readers": 10,
}


@pytest.mark.filterwarnings("ignore")  # about odd files
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_fails(name: str) -> None:
    corpus_size = len(list((CORPUS / name).glob("*")))
    run = target(name)
    for data in islice(inputs(name), corpus_size + _COUNTS.get(name, 300)):
        run(data)
