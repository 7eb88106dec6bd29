"""The card of a trained model: what a reader must know before using it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from molspec.model.spec import ModelSpec
from molspec.training.validation import Validation

_TASKS = {
    "retro": ("SMILES of one product", "SMILES of the reactants, joined by `.`"),
    "product": ("SMILES of reactants and reagents, joined by `.`", "SMILES of the product"),
}


def write_card(
    name: str,
    spec: ModelSpec,
    data: Mapping[str, Any],
    numbers: Mapping[str, float],
    best: Validation,
    start: str | None,
) -> str:
    """Markdown for people.

    `data` is the description of prepared data, `start` the fingerprint of the weights that the
    training began with.
    """
    given, wanted = _TASKS[data["task"]]
    million = sum(map(prod, spec.weight_shapes().values())) / 1e6
    top_1 = "not measured" if best.top_1 is None else f"{100 * best.top_1:.1f} %"
    judge = data.get("judge")
    judged = (
        ""
        if judge is None
        else f"| Judge | {judge['name']}: kept {judge['kept']} of \
{judge['reactions']} reactions |\n"
    )
    began = "" if start is None else f"| Began with | the weights {start[:8]} of another model |\n"
    validation = ", ".join(data["validation_files"]) or "a share of the same products"
    return f"""# {name}

| | |
|---|---|
| Input | {given} |
| Output | {wanted} |
| Size | {million:.1f} million parameters: {spec.encoder_layers} encoder and {spec.decoder_layers} \
decoder layers, width {spec.d_model}, {spec.head_count} heads, feed-forward {spec.feed_forward} |
| Data | {", ".join(data["files"])}: {data["train"]["reactions"]} reactions, \
{data["train"]["pairs"]} pairs |
{judged}{began}| Validation | {validation}: {data["validation"]["reactions"]} reactions |
| Budget | {numbers["minutes"]:.1f} minutes, {numbers["step"]:.0f} steps, \
{numbers["tokens"] / 1e6:.1f} million tokens |
| Token accuracy | {100 * best.token_accuracy:.2f} %, validation |
| Whole targets, true tokens given | {100 * best.sequence_accuracy:.1f} %, validation |
| Top-1, decoded | {top_1}, validation |
"""
