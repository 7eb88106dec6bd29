"""heads.safetensors beside the weights: a model's draft heads, and which model they are of."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from molspec.checkpoints.checkpoint import CheckpointError
from molspec.model.heads import HeadsWeights
from molspec.model.spec import HeadsSpec

NAME = "heads.safetensors"
_FORMAT = "molspec-heads"


def read(path: Path, model: str) -> HeadsWeights:
    """Read the file of the model whose weights have the fingerprint `model`.

    Raises CheckpointError where it is damaged or of another model, OSError where it cannot be read.
    """
    try:
        with safe_open(path, "pt") as stored:
            metadata = json.loads((stored.metadata() or {}).get(_FORMAT, "null"))
            weights = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        if not isinstance(metadata, dict) or not isinstance(metadata.get("spec"), dict):
            raise ValueError(f"it does not say what its {_FORMAT} are")
        spec = HeadsSpec.from_json(metadata["spec"])
    except (SafetensorError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} is damaged: {error}") from error
    if metadata.get("model") != model:
        raise CheckpointError(
            f"{path.name} has draft heads of the model {metadata.get('model')}: expected those of "
            f"{model}, which is here"
        )
    return HeadsWeights(spec, weights)


def written(heads: HeadsWeights, model: str) -> bytes:
    """The file's content, for the model whose weights have the fingerprint `model`."""
    # One entry: the order of several is by chance.
    metadata = {_FORMAT: json.dumps({"spec": heads.spec.to_json(), "model": model})}
    return save({name: weight.contiguous() for name, weight in heads.weights.items()}, metadata)
