"""Converts a molspec checkpoint to the formats of the peers, side by side in one folder.

The models are post-norm with one more norm after each stack. CTranslate2 has that norm for
pre-norm models and applies it whenever it is present. ONNX Runtime runs graphs exported from
cached.py.
"""

import io
import logging
import shutil
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molspec import checkpoints
from molspec.checkpoints import Checkpoint
from molspec.checkpoints.bundled import locate
from molspec.model.positions import sinusoidal_positions
from molspec.model.transformer import Transformer
from peering.cached import Encoder, Step
from shapes import PAPERS_UNITS, widened

Arrays = Mapping[str, np.ndarray]


def convert(model: str, folder: Path, papers: bool = False) -> str:
    """Write the model to `folder`, unless it is there: molspec/, ctranslate2/ and onnx/.

    papers: with as many inner units as the papers' models. Returns the fingerprint of its weights.
    """
    checkpoint = checkpoints.read(locate(model))
    if papers:
        checkpoint = widened(checkpoint.to("float32"), PAPERS_UNITS)
    fingerprint, done = checkpoint.fingerprint(), folder / "done"
    if done.exists() and done.read_text() == fingerprint:
        return fingerprint
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    checkpoint = checkpoint.to("float32")
    checkpoints.write(checkpoint, folder / "molspec")
    shutil.copy(folder / "molspec" / "vocabulary.json", folder)
    logging.disable(logging.WARNING)  # hides the converters' advice
    for peer in (_to_ctranslate2, _to_onnx):
        try:
            peer(checkpoint, folder)
        except ImportError as error:
            print(f"{peer.__name__}: {error}; not converted")
    logging.disable(logging.NOTSET)
    done.write_text(fingerprint)
    return fingerprint


def twin(folder: Path) -> Transformer:
    """The training twin of a converted model."""
    checkpoint = checkpoints.read(folder / "molspec")
    model = Transformer(checkpoint.spec, pad_id=checkpoint.vocabulary.pad_id)
    model.load_state_dict(dict(checkpoint.weights))
    return model.eval()


def _to_ctranslate2(checkpoint: Checkpoint, folder: Path) -> None:
    from ctranslate2.specs import TransformerSpec

    spec, weights = checkpoint.spec, {k: v.numpy() for k, v in checkpoint.weights.items()}
    # Built as pre-norm, to have the final norms, and then declared post-norm.
    built = TransformerSpec.from_config(
        (spec.encoder_layers, spec.decoder_layers), spec.head_count, pre_norm=True
    )
    sinusoids = sinusoidal_positions(spec.max_positions, spec.d_model).numpy()
    for name, stack in (("encoder", built.encoder), ("decoder", built.decoder)):
        stack.pre_norm = False
        stack.scale_embeddings = False
        side = "source" if name == "encoder" else "target"
        stack.position_encodings.encodings = weights.get(f"{side}_positions", sinusoids)
        _norm(weights, f"{name}.norm", stack.layer_norm)
        for index, layer in enumerate(stack.layer):
            at = f"{name}.layers.{index}"
            _attention(weights, f"{at}.self_attention", layer.self_attention, fused=3)
            if name == "decoder":
                _attention(weights, f"{at}.cross_attention", layer.attention, fused=2)
            _linear(weights, f"{at}.feed_forward.inner", layer.ffn.linear_0)
            _linear(weights, f"{at}.feed_forward.outer", layer.ffn.linear_1)
            _norm(weights, f"{at}.feed_forward_norm", layer.ffn.layer_norm)
    built.decoder.start_from_zero_embedding = False
    built.encoder.embeddings[0].weight = weights["source_embedding"]
    built.decoder.embeddings.weight = weights["source_embedding"]
    _linear(weights, "output", built.decoder.projection)
    tokens = checkpoint.vocabulary.tokens
    built.register_source_vocabulary(list(tokens))
    built.register_target_vocabulary(list(tokens))
    begin = checkpoint.spec.decoder_start(checkpoint.vocabulary.bos_id)
    built.config.bos_token = tokens[begin]
    built.config.eos_token = tokens[checkpoint.vocabulary.eos_id]
    if checkpoint.vocabulary.unk_id is not None:
        built.config.unk_token = tokens[checkpoint.vocabulary.unk_id]
    built.config.decoder_start_token = built.config.bos_token
    built.validate()
    built.optimize(quantization=None)
    (folder / "ctranslate2").mkdir()
    built.save(str(folder / "ctranslate2"))


def _norm(weights: Arrays, name: str, norm: Any) -> None:
    norm.gamma, norm.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _linear(weights: Arrays, name: str, linear: Any) -> None:
    linear.weight, linear.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _attention(weights: Arrays, name: str, attention: Any, fused: int) -> None:
    parts = ("query", "key", "value")
    groups = [parts] if fused == 3 else [parts[:1], parts[1:]]
    for linear, group in zip(attention.linear, groups, strict=False):
        linear.weight = np.concatenate([weights[f"{name}.{part}.weight"] for part in group])
        linear.bias = np.concatenate([weights[f"{name}.{part}.bias"] for part in group])
    _linear(weights, f"{name}.output", attention.linear[-1])
    _norm(weights, f"{name}_norm", attention.layer_norm)


def _to_onnx(checkpoint: Checkpoint, folder: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = folder / "onnx"
    target.mkdir()
    model = twin(folder)
    spec = checkpoint.spec
    source_ids = torch.tensor([[1, 5, 6, 2], [1, 5, 2, 0]])
    memory = Encoder(model)(source_ids)
    cache = torch.zeros(spec.decoder_layers, 2, 4, spec.head_count, 3, spec.head_dim)
    query, source = {0: "query", 1: "source"}, {2: "query", 4: "source"}
    _export(
        Encoder(model),
        (source_ids,),
        {"source_ids": query, "memory": source},
        target / "encoder.onnx",
    )
    _export(
        Step(model),
        (torch.tensor([5, 6, 5, 6]), torch.tensor([3]), source_ids, memory, cache),
        {
            "token_ids": {0: "row"},
            "position": {},
            "source_ids": query,
            "memory": source,
            "cache": {2: "row", 4: "past"},
            "logits": {0: "row"},
            "grown": {2: "row", 4: "grown"},
        },
        target / "step.onnx",
    )
    for name in ("encoder", "step"):
        quantize_dynamic(
            target / f"{name}.onnx", target / f"{name}_int8.onnx", weight_type=QuantType.QInt8
        )


def _export(
    module: nn.Module, arguments: tuple[Tensor, ...], axes: dict[str, dict[int, str]], path: Path
) -> None:
    """Export with the inputs and outputs that `axes` names, in order, and their dynamic axes."""
    names = list(axes)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            arguments,
            path,
            input_names=names[: len(arguments)],
            output_names=names[len(arguments) :],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
