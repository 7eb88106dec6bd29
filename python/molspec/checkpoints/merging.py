"""One vocabulary from two: models whose source and target count their tokens separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from molspec.model.spec import ModelSpec

#: Bias of a token that the target does not have: no probability is left of it in any type.
_NEVER = -1e4

Weights = Mapping[str, Tensor]


def merge_vocabularies(
    spec: ModelSpec, weights: Weights, source: Sequence[str], target: Sequence[str], unknown: str
) -> tuple[ModelSpec, dict[str, Tensor], tuple[str, ...]]:
    """Give a model of two vocabularies one: the target's tokens, then what only the source has.

    Answers and log-probabilities stay what they were. A token that only the target has is read as
    `unknown`, as the model's own program reads it.
    """
    tokens = (*target, *(token for token in source if token not in set(target)))
    source_ids = {token: index for index, token in enumerate(source)}
    rows = [source_ids.get(token, source_ids[unknown]) for token in tokens]
    more = len(tokens) - len(target)
    target_embedding = weights["target_embedding"]
    output = target_embedding if spec.tied_output else weights["output.weight"]
    bias = weights["output.bias"] if spec.output_bias else output.new_zeros(len(target))
    merged = {
        **weights,
        "source_embedding": weights["source_embedding"][torch.tensor(rows)],
        "target_embedding": F.pad(target_embedding, (0, 0, 0, more)),
        "output.weight": F.pad(output, (0, 0, 0, more)),
        "output.bias": F.pad(bias, (0, more), value=_NEVER),
    }
    merged_spec = replace(
        spec,
        source_vocab_size=len(tokens),
        target_vocab_size=len(tokens),
        tied_output=False,
        output_bias=True,
    )
    return merged_spec, merged, tokens
