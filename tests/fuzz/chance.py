"""Inputs of a target, always the same for a seed: its corpus, then what chance makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

from tests.fuzz.draw import Draw

CORPUS = Path(__file__).parent / "corpus"


def inputs(name: str, seed: int = 0) -> Iterator[bytes]:
    """Endless."""
    known = [file.read_bytes() for file in sorted((CORPUS / name).glob("*"))]
    yield from known
    for number in count():
        chance = Random(f"{name} {seed} {number}")
        if known and chance.random() < 0.3:
            yield Draw(chance.randbytes(64)).damaged(chance.choice(known))
        else:
            yield chance.randbytes(chance.randrange(200))
