"""A model with its vocabulary, drafters and card, in any format."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import get_args

import torch

from molspec.common.console import prefixing, quoted
from molspec.common.task import Task
from molspec.model.copying import copied_between_processes
from molspec.model.heads import HeadsWeights, weight_shapes
from molspec.model.spec import ModelSpec
from molspec.model.spec_drafter import SpecDrafterWeights
from molspec.text import Vocabulary

#: The types that weights are stored in, by name.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the fault."""


@copied_between_processes
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model that is checked and fit to run.

    `weights` have the names and shapes of `spec.weight_shapes()`. `ngram` is a token n-gram model
    of targets for drafting, as `molspec.drafting` stores it, `heads` are draft heads and
    `spec_drafter` a Spec-Drafter of this model; `card` is Markdown for people.
    With `canonical_queries` the model was trained on RDKit's canonical SMILES, and queries are made
    canonical. With `aligned` it was trained on root-aligned SMILES, and finds other spellings of a
    target improbable. `task` is the model's task, None if the format does not have it. `template`
    is the text that the model reads, with {} for the query, such as "Product:{}>>"; None is the
    query alone. With a template, queries are SMILES, also of learned pieces. `runs_in` is the dtype
    in which the model is best run, by the kind of device, such as {"cpu": "int8"}; a device that it
    does not name has float32.

    Raises CheckpointError if weights are missing, unexpected, misshapen or not finite, if the task
    is unknown, if the vocabulary does not fit the embeddings or the template, if queries of learned
    pieces are canonical without a template, or if targets of learned pieces are aligned.
    """

    spec: ModelSpec
    weights: Mapping[str, torch.Tensor]
    vocabulary: Vocabulary
    ngram: bytes | None = None
    card: str | None = None
    canonical_queries: bool = False
    task: Task | None = None
    heads: HeadsWeights | None = None
    spec_drafter: SpecDrafterWeights | None = None
    template: str | None = None
    aligned: bool = False
    runs_in: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_weights(self.weights, self.spec.weight_shapes())
        if self.heads is not None:
            shapes = weight_shapes(self.heads.spec, self.spec.d_model)
            with prefixing("draft heads: ", CheckpointError, CheckpointError):
                check_weights(self.heads.weights, shapes)
        if self.spec_drafter is not None:
            with prefixing("Spec-Drafter: ", CheckpointError, CheckpointError):
                self.drafting(self.spec_drafter)
        for side in ("source", "target"):
            rows = getattr(self.spec, f"{side}_vocab_size")
            if rows != self.vocabulary.size:
                raise CheckpointError(
                    f"the vocabulary has {self.vocabulary.size} tokens, "
                    f"but the {side} embedding has {rows} rows"
                )
        if self.task is not None and self.task not in get_args(Task):
            raise CheckpointError(f"task is {self.task!r}: expected {' or '.join(get_args(Task))}")
        if self.canonical_queries and not self.vocabulary.atomwise and self.template is None:
            raise CheckpointError("canonical_queries is true for a vocabulary of learned pieces")
        if self.aligned and not self.vocabulary.atomwise:
            raise CheckpointError("aligned is true for a vocabulary of learned pieces")
        self._check_template()
        self.spec.decoder_start(self.vocabulary.bos_id)
        for side in ("source", "target"):
            if getattr(self.spec, f"{side}_bos") and self.vocabulary.bos_id is None:
                raise CheckpointError(f"the {side} begins with BOS, but the vocabulary has none")

    def _check_template(self) -> None:
        if self.template is None:
            return
        if not isinstance(self.template, str) or self.template.count("{}") != 1:
            raise CheckpointError(
                f"template is {self.template!r}: expected text with one {{}} for the query"
            )
        with prefixing(f"template is {self.template!r}: ", CheckpointError):
            self.vocabulary.encode(self.template.replace("{}", "C"))

    @property
    def dtype(self) -> str:
        """Name of the weights' type."""
        return str(self.weights["source_embedding"].dtype).removeprefix("torch.")

    def drafting(self, drafter: SpecDrafterWeights) -> Checkpoint:
        """A Spec-Drafter of this model as a checkpoint of its own."""
        return Checkpoint(drafter.spec, drafter.weights, self.vocabulary, task=self.task)

    def fingerprint(self, with_drafters: bool = True) -> str:
        """32 hexadecimal digits of everything that decides the answers.

        with_drafters: also of the n-gram model and the model's own drafters.
        """
        return self._fingerprints[with_drafters]

    @cached_property
    def _fingerprints(self) -> tuple[str, str]:
        """Without drafters and with them, in one pass over the weights."""
        digest = blake2b(digest_size=16)
        values = [self.spec.to_json(), self.vocabulary.to_json(), self.canonical_queries]
        if self.template is not None:
            values.append(self.template)
        digest.update(json.dumps([*values, self.dtype], sort_keys=True).encode())

        def update(weights: Mapping[str, torch.Tensor]) -> None:
            for name in sorted(weights):
                digest.update(weights[name].contiguous().view(torch.uint8).numpy().data)

        update(self.weights)
        own = digest.hexdigest()
        for drafter in (self.heads, self.spec_drafter):
            if drafter is not None:
                update(drafter.weights)
        digest.update(self.ngram or b"")
        return own, digest.hexdigest()

    def first_layers(self, count: int) -> Checkpoint:
        """The model of the decoder's first layers, without draft heads: they read other states.

        It answers well if a training with `exit_layers` has taught these layers to answer alone.

        Raises ValueError if there are not more layers.
        """
        spec = self.spec.first_layers(count, "decoder_layers")
        weights = {name: self.weights[name] for name in spec.weight_shapes()}
        told = f"Only the first {count} of {self.spec.decoder_layers} decoder layers of this model:"
        card = None if self.card is None else f"{told}\n\n{self.card}"
        return replace(self, spec=spec, weights=weights, heads=None, card=card)

    def to(self, dtype: str) -> Checkpoint:
        """Round every weight to `dtype`: float32, float16 or bfloat16; but not the rotations.

        Their angles are computed, and an error of them would grow with the distance.

        Raises ValueError for another name, CheckpointError if a weight exceeds the type's range.
        """
        if dtype not in DTYPES:
            raise ValueError(f"dtype is {quoted(dtype)}: expected one of {', '.join(DTYPES)}")
        kept = {name: weight for name, weight in self.weights.items() if name == "rotary"}
        weights = {name: weight.to(DTYPES[dtype]) for name, weight in self.weights.items()} | kept
        with prefixing(f"in {dtype}, ", CheckpointError, CheckpointError):
            return replace(self, weights=weights)


def check_weights(
    weights: Mapping[str, torch.Tensor], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise CheckpointError unless `weights` are finite, with exactly these names and shapes."""
    if missing := shapes.keys() - weights.keys():
        raise CheckpointError(f"missing weights: {_some(missing)}")
    if unexpected := weights.keys() - shapes.keys():
        raise CheckpointError(f"unexpected weights: {_some(unexpected)}")
    for name, shape in shapes.items():
        if not isinstance(weights[name], torch.Tensor):
            kind = type(weights[name]).__name__
            raise CheckpointError(f"weight {name} is a {kind}: expected a tensor")
        if tuple(weights[name].shape) != shape:
            raise CheckpointError(
                f"weight {name} has shape {tuple(weights[name].shape)}: expected {shape}"
            )
        if not weights[name].is_floating_point() or weights[name].itemsize == 1:
            raise CheckpointError(
                f"weight {name} is of {weights[name].dtype}: expected floating point, not quantised"
            )
        # In a tenth of the time of `isfinite`: a NaN is both the least and the most.
        if not all(map(math.isfinite, map(float, weights[name].aminmax()))):
            raise CheckpointError(f"weight {name} holds NaN or infinity")


def _some(names: Collection[str], count: int = 5) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(sorted(names)[:count]) + more
