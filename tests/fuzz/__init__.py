"""Fuzz targets: functions of bytes that must never fail, whatever the bytes are.

A target takes what it does from a `Draw` of the bytes, lets the errors pass that the documentation
promises, and fails on every other: a crash, a wrong exception, a broken law. `python -m tests.fuzz`
runs them, with atheris where it is installed; `corpus/TARGET` holds inputs that found a fault once,
and seeds. `test_replay.py` runs those, and a few hundred made of them, in the suite.

A new target is a function of a `Draw` in a module here, named in `TARGETS`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from tests.fuzz.draw import Draw

#: Name -> module. Imported when used: a target's process needs its own alone.
TARGETS = {
    "tokenizer": "text",
    "smiles": "text",
    "json": "text",
    "journal": "text",
    "ngram": "drafts",
    "drafts": "drafts",
    "checkpoints": "files",
    "dense": "operators",
    "engine": "operators",
    "queries": "queries",
    "requests": "decoder",
    "bodies": "server",
    "caches": "stores",
    "outputs": "stores",
    "stocks": "stores",
}


def target(name: str) -> Callable[[bytes], None]:
    """The target of a name, as a function of bytes."""
    function = getattr(import_module(f"tests.fuzz.{TARGETS[name]}"), name)
    return lambda data: function(Draw(data))
