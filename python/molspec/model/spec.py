"""What an encoder-decoder transformer is, apart from its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Norm = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned"]
Activation = Literal["relu", "gelu", "silu"]

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "bool": (bool,),
    "float": (int, float),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "norm": ("post", "pre"),
    "positions": ("sinusoidal", "learned"),
    "activation": ("relu", "gelu", "silu"),
}


@dataclass(frozen=True)
class ModelSpec:
    """Sizes and conventions of one encoder-decoder transformer.

    The defaults are the Molecular Transformer as Andronov et al. train it (J. Cheminform. 2025,
    s13321-025-00974-w): post-norm, ReLU, one more LayerNorm at the end of each stack, interleaved
    sinusoidal positions from 0, no sqrt(d) scaling, one embedding for source and target.

    Raises ValueError, naming the field, where a value cannot describe a model.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 256
    head_count: int = 8
    encoder_layers: int = 4
    decoder_layers: int = 4
    feed_forward: int = 2048
    #: Rows of the position table: the longest source or target, BOS and EOS counted.
    max_positions: int = 512
    norm: Norm = "post"
    norm_eps: float = 1e-5
    #: One more normalisation behind the last layer of each stack.
    final_norm: bool = True
    #: Normalise the sum of embedding and position (BART).
    embedding_norm: bool = False
    #: "sinusoidal": even columns sine, odd columns cosine. Any other table travels as "learned".
    positions: Positions = "sinusoidal"
    #: Multiply token embeddings by sqrt(d_model) before positions are added.
    scale_embedding: bool = False
    activation: Activation = "relu"
    #: Source and target use one embedding table.
    shared_embedding: bool = True
    #: The output projection is the target embedding.
    tied_output: bool = False
    output_bias: bool = True
    #: The source is wrapped in BOS and in EOS before it is encoded.
    source_bos: bool = True
    source_eos: bool = True
    #: The token that the decoder starts with, where it is not BOS (BART: EOS, Marian: PAD).
    start_id: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            fits = isinstance(value, _TYPES.get(str(field.type), (str,)))
            if not fits or ("int" in str(field.type) and isinstance(value, bool)):
                raise ValueError(f"{field.name} is {value!r}: expected {field.type}")
            if field.type == "int" and value < 1:
                raise ValueError(f"{field.name} is {value}: expected at least 1")
            if field.name in _CHOICES and value not in _CHOICES[field.name]:
                raise ValueError(
                    f"{field.name} is {value!r}: expected one of {', '.join(_CHOICES[field.name])}"
                )
        if self.d_model % self.head_count:
            raise ValueError(
                f"d_model is {self.d_model}: expected a multiple of head_count {self.head_count}"
            )
        if not (math.isfinite(self.norm_eps) and self.norm_eps > 0):
            raise ValueError(f"norm_eps is {self.norm_eps}: expected a positive number")
        if self.shared_embedding and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                f"shared_embedding needs one vocabulary size, got source_vocab_size "
                f"{self.source_vocab_size} and target_vocab_size {self.target_vocab_size}"
            )

        if self.start_id is not None and not 0 <= self.start_id < self.target_vocab_size:
            raise ValueError(
                f"start_id is {self.start_id}: expected a target id, "
                f"0 to {self.target_vocab_size - 1}"
            )

    def decoder_start(self, bos_id: int | None) -> int:
        """The token that the decoder starts with: start_id, or else the vocabulary's BOS.

        Raises ValueError where there is neither.
        """
        start = bos_id if self.start_id is None else self.start_id
        if start is None:
            raise ValueError("start_id is None: expected an id, as the vocabulary has no BOS")
        return start

    @property
    def head_dim(self) -> int:
        """Columns of one attention head."""
        return self.d_model // self.head_count

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelSpec:
        """The spec that `to_json` wrote; unknown and missing fields are errors."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"unknown model fields: {', '.join(unknown)}")
        if missing := sorted({"source_vocab_size", "target_vocab_size"} - set(values)):
            raise ValueError(f"missing model fields: {', '.join(missing)}")
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        return asdict(self)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight, in molspec's own names. Linear weights are [out, in]."""
        return dict(self._weight_shapes())

    def _weight_shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        d = self.d_model
        yield "source_embedding", (self.source_vocab_size, d)
        if not self.shared_embedding:
            yield "target_embedding", (self.target_vocab_size, d)
        if self.positions == "learned":
            yield "source_positions", (self.max_positions, d)
            yield "target_positions", (self.max_positions, d)
        for stack, layers, attentions in (
            ("encoder", self.encoder_layers, ("self_attention",)),
            ("decoder", self.decoder_layers, ("self_attention", "cross_attention")),
        ):
            if self.embedding_norm:
                yield from _norm(f"{stack}.embedding_norm", d)
            for index in range(layers):
                layer = f"{stack}.layers.{index}"
                for attention in attentions:
                    for part in ("query", "key", "value", "output"):
                        yield from _linear(f"{layer}.{attention}.{part}", d, d)
                    yield from _norm(f"{layer}.{attention}_norm", d)
                yield from _linear(f"{layer}.feed_forward.inner", self.feed_forward, d)
                yield from _linear(f"{layer}.feed_forward.outer", d, self.feed_forward)
                yield from _norm(f"{layer}.feed_forward_norm", d)
            if self.final_norm:
                yield from _norm(f"{stack}.norm", d)
        if not self.tied_output:
            yield "output.weight", (self.target_vocab_size, d)
        if self.output_bias:
            yield "output.bias", (self.target_vocab_size,)


def _linear(name: str, out_size: int, in_size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (out_size, in_size)
    yield f"{name}.bias", (out_size,)


def _norm(name: str, size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (size,)
    yield f"{name}.bias", (size,)
