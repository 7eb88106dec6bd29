"""Modules of other people on a device: decoded as they are, compiled there, and from there."""

import importlib.util
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
from place import Place, Row
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer
from torch import nn

import molspec
from molspec import Hypotheses

Options = dict[str, Any]
_SEARCHES: dict[str, Options] = {
    "no drafts": {"drafter": "none"},
    "tree": {"drafter": "tree"},
    "windows": {"drafter": "windows"},
    "three best": {"n_best": 3, "drafter": "none"},
    "three best, exact": {"n_best": 3, "beam": "exact", "drafter": "tree"},
}
#: The CPU and a device sum in other orders.
_TOLERANCE = 1e-3


def run(place: Place) -> Iterator[Row]:
    """Answers of modules on the device against those on the CPU, in float32."""
    for name, (make, ids) in _modules().items():
        here = make().eval()
        there = deepcopy(here).to(place.tensors)
        models = {
            "as it is": there,
            "compiled from the CPU": molspec.compile(here, device=place.tensors),
            "compiled from the device": molspec.compile(there, device=place.tensors),
        }
        sources = [[5, 6, 7, 14, 8, EOS], [9, EOS], [4, 4, 10, 11, 6, 8, EOS]]
        limits = {"max_length": 6 if place.few else 16, **ids}
        for search, options in list(_SEARCHES.items())[: 2 if place.few else None]:
            expected = molspec.decode(here, sources, **limits, **options)
            for what, model in models.items():
                found = molspec.decode(model, sources, **limits, **options)
                yield {"what": f"{name}, {what}, {search}", **_difference(found, expected)}


def _modules() -> dict[str, tuple[Callable[[], nn.Module], Options]]:
    """The modules that can be made here, with their special tokens."""
    paper = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
    found: dict[str, tuple[Callable[[], nn.Module], Options]] = {
        "torch.nn.Transformer": (lambda: PlainTransformer(seed=14), paper)
    }
    if all(importlib.util.find_spec(needed) for needed in ("transformers", "pytest")):
        from tests.drop_in.hugging_face_models import bart, ids_of, t5

        found["BART"] = (lambda: bart().float(), ids_of(bart()))
        found["T5"] = (lambda: t5().float(), ids_of(t5()))
    return found


def _difference(found: Hypotheses, expected: Hypotheses) -> Row:
    same = torch.equal(found.sequences.cpu(), expected.sequences.cpu())
    largest = float((found.log_probs.cpu() - expected.log_probs.cpu()).abs().max()) if same else 1.0
    return {"largest_difference": largest, "ok": same and largest < _TOLERANCE}
