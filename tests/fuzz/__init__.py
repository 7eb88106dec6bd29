"""Fuzz targets: functions of bytes that must never fail, whatever the bytes are.

A target draws its actions from a `Draw` of the bytes. It ignores the errors that the documentation
promises and fails on all other faults: a crash, a wrong exception, a broken law. `python -m
tests.fuzz` runs the targets, with atheris if it is installed. `corpus/TARGET` holds seeds and
inputs that once found a fault. `test_replay.py` runs them and a few hundred more in the test suite.

A new target is a function of a `Draw` in a module of this folder, named in `TARGETS`.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from random import Random

from tests.fuzz.draw import Draw

CORPUS = Path(__file__).parent / "corpus"
#: Name -> module. Imported when used: a target's process needs only its own module.
TARGETS = {
    name: module
    for module, names in {
        "text": ("tokenizer", "smiles", "rings", "records", "json", "journal"),
        "drafts": ("ngram", "drafts"),
        "files": ("checkpoints", "pickles"),
        "operators": ("dense", "engine"),
        "queries": ("queries", "requests"),
        "server": ("bodies", "connections"),
        "stores": ("caches", "outputs", "stocks"),
        "lengths": ("expressions", "readers"),
    }.items()
    for name in names
}


def target(name: str) -> Callable[[bytes], None]:
    """The target with this name, as a function of bytes."""
    function = getattr(import_module(f"tests.fuzz.{TARGETS[name]}"), name)
    return lambda data: function(Draw(data))


def inputs(name: str, seed: int = 0) -> Iterator[bytes]:
    """Yields inputs without end, always the same for a seed: the corpus, then random ones."""
    corpus = [file.read_bytes() for file in sorted((CORPUS / name).glob("*"))]
    yield from corpus
    for number in count():
        rng = Random(f"{name} {seed} {number}")
        if corpus and rng.random() < 0.3:
            yield Draw(rng.randbytes(64)).damaged(rng.choice(corpus))
        else:
            yield rng.randbytes(rng.randrange(200))
