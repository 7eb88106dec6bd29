"""Inputs of a target, always the same for a seed: its corpus, then random inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

from tests.fuzz.draw import Draw

CORPUS = Path(__file__).parent / "corpus"


def inputs(name: str, seed: int = 0) -> Iterator[bytes]:
    """Yields inputs without end."""
    corpus = [file.read_bytes() for file in sorted((CORPUS / name).glob("*"))]
    yield from corpus
    for number in count():
        rng = Random(f"{name} {seed} {number}")
        if corpus and rng.random() < 0.3:
            yield Draw(rng.randbytes(64)).damaged(rng.choice(corpus))
        else:
            yield rng.randbytes(rng.randrange(200))
