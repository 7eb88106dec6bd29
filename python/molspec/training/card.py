"""The card of a trained model, for its users."""

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
    read, written = _TASKS[data["task"]]
    million = sum(map(prod, spec.weight_shapes().values())) / 1e6
    train = data["train"]
    parts = data.get("parts", [data])
    judges = [part["judge"] for part in parts if "judge" in part]
    files = ", ".join(data["validation_files"]) or "a share of the same products"
    top_1 = "not measured" if best.top_1 is None else f"{100 * best.top_1:.1f} %"
    rows = {
        "Input": read,
        "Output": written,
        "Size": f"{million:.1f} million parameters: {spec.encoder_layers} encoder and "
        f"{spec.decoder_layers} decoder layers, width {spec.d_model}, {spec.head_count} heads, "
        f"feed-forward {spec.feed_forward}",
        "Data": f"{', '.join(data['files'])}: {train['reactions']} reactions, "
        f"{train['pairs']} pairs",
        "Judge": "; ".join(
            f"{judge['name']}: kept {judge['kept']} of {judge['reactions']} reactions"
            for judge in judges
        ),
        "Targets": "; ".join(
            f"of {', '.join(part['files'])}: answers of {part['teacher']}"
            for part in parts
            if "teacher" in part
        ),
        "Began with": start and f"the weights {start[:8]} of another model",
        "Validation": f"{files}: {data['validation']['reactions']} reactions",
        "Budget": f"{numbers['minutes']:.1f} minutes, {numbers['step']:.0f} steps, "
        f"{numbers['tokens'] / 1e6:.1f} million tokens",
        "Token accuracy": f"{100 * best.token_accuracy:.2f} %, validation",
        "Whole targets, true tokens given": f"{100 * best.sequence_accuracy:.1f} %, validation",
        "Top-1, decoded": f"{top_1}, validation",
    }
    table = "".join(f"| {heading} | {text} |\n" for heading, text in rows.items() if text)
    return f"# {name}\n\n| | |\n|---|---|\n{table}"
