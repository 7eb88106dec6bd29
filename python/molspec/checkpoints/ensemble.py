"""Models that decode together: how they are named, and what must be the same in all."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from molspec.checkpoints.checkpoint import Checkpoint, CheckpointError
from molspec.common.console import quoted
from molspec.text.vocabulary import difference

ModelName = str | Path
#: What each model may have of its own; the vocabulary and parts of the spec are compared apart.
_OWN = (
    *("spec", "weights", "vocabulary", "ngram", "card", "heads", "spec_drafter"),
    *("aligned", "runs_in"),
)


def members(name: ModelName | Sequence[ModelName]) -> list[ModelName]:
    """The models that are meant: the list, or the parts of "a+b"; otherwise the one.

    A file or folder that exists is one model, whatever its name. Raises CheckpointError for an
    empty list.
    """
    if isinstance(name, str):
        return list(_parts(name.split("+")))
    if isinstance(name, str | bytes | Path) or not isinstance(name, Sequence):
        return [name]
    if not name:
        raise CheckpointError("name_or_path is empty: expected models")
    return list(name)


def _parts(words: list[str]) -> Iterator[str]:
    """The names of which the words are: a path that exists may have a plus sign."""
    while words:
        ends = (end for end in range(len(words), 1, -1) if os.path.lexists("+".join(words[:end])))
        end = next(ends, 1)
        yield "+".join(words[:end])
        words = words[end:]


def runs_in(checkpoints: Sequence[Checkpoint], device: str) -> str:
    """The dtype in which all of the models are best run on a device; float32 if they differ."""
    kind = device.partition(":")[0]
    named = {each.runs_in.get(kind, "float32") for each in checkpoints}
    return named.pop() if len(named) == 1 else "float32"


def check_alike(names: Sequence[ModelName], checkpoints: Sequence[Checkpoint]) -> None:
    """Check that models read and write the same tokens by the same conventions.

    Raises CheckpointError, naming two models and the first difference.
    """
    for name, checkpoint in list(zip(names, checkpoints, strict=True))[1:]:
        if (found := _difference(checkpoint, checkpoints[0])) is not None:
            raise CheckpointError(
                f"{name} (there) and {names[0]} (here) cannot be averaged: {found}"
            )


def _difference(there: Checkpoint, here: Checkpoint) -> str | None:
    its, own = _conventions(there), _conventions(here)
    for name in {**own, **its}:
        if its.get(name) != own.get(name):
            values = quoted(its.get(name)), quoted(own.get(name))
            return f"{name} is {values[0]} there and {values[1]} here"
    # At the end: models of different tasks have other tokens for that reason.
    return difference(there.vocabulary.tokens, here.vocabulary.tokens)


def _conventions(checkpoint: Checkpoint) -> dict[str, Any]:
    vocabulary, spec = checkpoint.vocabulary, checkpoint.spec
    named = {"start_id": spec.decoder_start(vocabulary.bos_id)}
    named |= {name: getattr(spec, name) for name in ("source_bos", "source_eos", "target_bos")}
    shared = [each.name for each in fields(checkpoint) if each.name not in _OWN]
    named |= {name: getattr(checkpoint, name) for name in shared}
    return {name: value for name, value in vocabulary.to_json().items() if name != "tokens"} | named
