"""Rows for guesses on a device fit into the space that is reserved for them."""

import random
from pathlib import Path

import pytest

from molspec import drafting
from molspec._native import GuessModel
from molspec.text import TokenizationError
from tests import tiny

SMILES = (Path(__file__).parents[1] / "data" / "smiles.txt").read_text().split()


@pytest.fixture(scope="module", params=[False, True])
def guess(request: pytest.FixtureRequest) -> GuessModel:
    source = tiny.VOCABULARY.encode("CCO")
    ngram = drafting.build_ngram(tiny.VOCABULARY, [(source, source)], rewrites=request.param)
    return drafting.guess_model(tiny.VOCABULARY, ngram)


def branched_alkane(seed: int, atoms: int) -> str:
    """A random tree of carbons, whose main chain need not be its longest path."""
    draw = random.Random(seed)
    children: list[list[int]] = [[] for _ in range(atoms)]
    for atom in range(1, atoms):
        children[draw.randrange(max(0, atom - 4), atom)].append(atom)

    def write(atom: int) -> str:
        *branches, last = children[atom] or [None]
        text = "C" + "".join(f"({write(branch)})" for branch in branches if branch is not None)
        return text if last is None else text + write(last)

    return write(0)


def test_text_rows_fit_their_limit(guess: GuessModel) -> None:
    molecules = [*SMILES[:200], *(branched_alkane(seed, 20 * seed) for seed in range(1, 25))]
    sizes = []
    for smiles in molecules:
        try:
            source = tiny.VOCABULARY.encode(smiles)
        except TokenizationError:
            continue
        sizes.append(len(guess.text_row(source)))
        assert sizes[-1] <= guess.row_limits(len(source))[0]
    assert len(sizes) > 25


def test_guess_model_without_ngrams_has_no_tables() -> None:
    guess = drafting.guess_model(tiny.VOCABULARY, None)
    assert guess.ngram_alphabet == 0
    with pytest.raises(ValueError, match="there is no n-gram model"):
        guess.tables_row()
