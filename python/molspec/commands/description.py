"""Describes the installation and models for `molspec info`."""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch

import molspec
from molspec import checkpoints
from molspec._native import CUDA_CHIPS
from molspec.checkpoints import bundled, ensemble
from molspec.engine import devices, ops


def installation() -> str:
    """Versions, the instruction set that the kernels use, and the bundled models."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "rdkit", "numpy"))
    return "\n".join(
        (
            f"molspec     {molspec.__version__}",
            f"runs on     Python {platform.python_version()}, {libraries}",
            f"processor   {platform.machine()}, {_kernels()}",
            f"cuda        {_cuda()}",
            f"models      {', '.join(bundled.bundled_names())}",
        )
    )


def _kernels() -> str:
    found = f"kernels for {ops.instruction_set()}"
    fault = ops.amx_fault()
    return found if fault is None else f"{found}, as {fault}"


def _cuda() -> str:
    chips = f"kernels for {CUDA_CHIPS}; " if CUDA_CHIPS else ""
    fault = devices.cuda_fault()
    return chips + (torch.cuda.get_device_name() if fault is None else f"not used: {fault}")


def model(name_or_path: str) -> str:
    """Sizes, vocabulary and the head of the card; of each model of an ensemble.

    Raises ValueError if there is no such model or it is broken, or if an ensemble's are not alike.
    """
    names = ensemble.members(name_or_path)
    paths = [bundled.locate(name) for name in names]
    read = [checkpoints.read(path) for path in paths]
    ensemble.check_alike(names, read)
    parts = [_described(*each) for each in zip(names, paths, read, strict=True)]
    if len(parts) > 1:
        parts.insert(
            0,
            f"model       {name_or_path}, {len(names)} models: probabilities averaged\n"
            f"runs in     {_runs_in(read)}",
        )
    return "\n\n".join(parts)


def _described(name: ensemble.ModelName, path: Path, checkpoint: checkpoints.Checkpoint) -> str:
    spec, vocabulary = checkpoint.spec, checkpoint.vocabulary
    parameters = sum(weight.numel() for weight in checkpoint.weights.values())
    rows = {
        "model": str(name),
        "path": str(path),
        "parameters": f"{parameters / 1e6:.1f} million, {checkpoint.dtype}",
        "runs in": _runs_in([checkpoint]),
        "layers": f"{spec.encoder_layers} encoder, {spec.decoder_layers} decoder, "
        f"{spec.norm}-norm{'' if spec.norm_kind == 'layer' else f' ({spec.norm_kind})'}, "
        f"{'gated ' * spec.gated}{spec.activation}",
        "width": f"{spec.d_model}, {spec.head_count} heads, feed-forward {spec.feed_forward}",
        "longest": f"{spec.max_positions} positions, {spec.positions}"
        + ", rotary" * (spec.rotary_columns is not None),
        "vocabulary": f"{vocabulary.size} tokens",
        "task": checkpoint.task or "unknown",
        "queries": ("made canonical" if checkpoint.canonical_queries else "read as given")
        + (f", in {checkpoint.template}" if checkpoint.template is not None else ""),
        "targets": "root-aligned" if checkpoint.aligned else "in any spelling",
        "drafting": _drafting(checkpoint),
        "card": _head(checkpoint.card) if checkpoint.card is not None else "none",
    }
    return "\n".join(f"{key:11} {value}" for key, value in rows.items())


def _runs_in(read: Sequence[checkpoints.Checkpoint]) -> str:
    """The dtypes that are used unless another is asked for."""
    return ", ".join(f"{ensemble.runs_in(read, kind)} on {kind}" for kind in ("cpu", "cuda"))


def _head(card: str) -> str:
    """Return the first paragraph of a card, after titles and tables."""
    paragraphs = (" ".join(text.split()) for text in card.split("\n\n"))
    return next((text for text in paragraphs if text and text[0] not in "#|"), "empty")


def _drafting(checkpoint: checkpoints.Checkpoint) -> str:
    parts = ["n-gram model" if checkpoint.ngram is not None else "no n-gram model"]
    if checkpoint.heads is not None:
        heads = checkpoint.heads.spec
        parts.append(f"{heads.head_count} {heads.kind} heads")
    if checkpoint.spec_drafter is not None:
        spec, k = checkpoint.spec_drafter.spec, checkpoint.spec_drafter.k
        parts.append(
            f"a Spec-Drafter of {k} tokens, {spec.encoder_layers} + {spec.decoder_layers} layers, "
            f"width {spec.d_model}"
        )
    return ", ".join(parts)
