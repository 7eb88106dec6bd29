"""The description of an encoder-decoder transformer without its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from math import prod
from typing import Any, Literal, TypeAlias

from molspec.common.fields import check_fields, setting, wrong

Norm = Literal["post", "pre"]
NormKind = Literal["layer", "rms", "std"]
Positions = Literal["sinusoidal", "learned", "relative", "none"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
HeadKind = Literal["low-rank", "blockwise"]
#: Names and shapes of weights.
_Shapes: TypeAlias = Iterator[tuple[str, tuple[int, ...]]]

#: The engine's maxima: of positions, of layers, and of most counts. They also bound what a damaged
#: file can request: all other sizes are those of the file's weights.
MOST_POSITIONS, _MOST_LAYERS, _MOST = 2**14, 1024, 2**20
#: Maximum tokens that a Spec-Drafter guesses at once; a larger number is a typing error.
MOST_PLACES = 64


@dataclass(frozen=True)
class ModelSpec:
    """Sizes and conventions of one encoder-decoder transformer.

    The defaults are the Molecular Transformer as Andronov et al. train it (J. Cheminform. 2025,
    s13321-025-00974-w). It is post-norm, with ReLU and one more LayerNorm at the end of each stack.
    Positions are interleaved sinusoids from 0. Source and target share one embedding, which is not
    scaled by sqrt(d).

    Raises ValueError, naming the field, if a value cannot describe a model.
    """

    source_vocab_size: int = setting(MISSING, most=_MOST)
    target_vocab_size: int = setting(MISSING, most=_MOST)
    d_model: int = setting(256, most=_MOST)
    head_count: int = setting(8, most=64)
    encoder_layers: int = setting(4, most=_MOST_LAYERS)
    decoder_layers: int = setting(4, most=_MOST_LAYERS)
    feed_forward: int = setting(2048, most=_MOST)
    #: Columns of all heads of an attention together; d_model by default.
    attention_width: int | None = None
    #: The longest source or target, BOS and EOS counted: rows of a position table.
    max_positions: int = setting(512, most=MOST_POSITIONS)
    norm: Norm = "post"
    #: "rms" divides by the root of the mean square (Zhang and Sennrich 2019): no mean, no bias.
    #: "std" divides by the unbiased standard deviation plus norm_eps (The Annotated Transformer).
    norm_kind: NormKind = "layer"
    norm_eps: float = setting(1e-5, above=0, most=1)
    #: One more normalisation after the last layer of each stack.
    final_norm: bool = True
    #: Normalise the sum of embedding and position (BART).
    embedding_norm: bool = False
    #: "sinusoidal": even columns sine, odd columns cosine. Any other table is stored as "learned".
    #: "relative": nothing is added to embeddings; self-attention adds to its scores each head's
    #: learned bias of the distance's bucket (T5; see `positions.relative_biases`).
    #: "none": nothing is added.
    positions: Positions = "sinusoidal"
    relative_buckets: int = setting(32, most=_MOST)
    #: Distances from this one on share the last bucket.
    relative_max_distance: int = setting(128, most=_MOST)
    #: Every layer has its own biases (UMT5).
    relative_per_layer: bool = False
    #: Columns of each head whose queries and keys self-attention turns by an angle of the position,
    #: i together with rotary_columns / 2 + i (Su et al. 2021). The weight `rotary` has the angles.
    rotary_columns: int | None = setting(None, least=2)
    #: Multiply token embeddings by sqrt(d_model) before positions are added.
    scale_embedding: bool = False
    #: Divide attention scores by sqrt(head_dim).
    scale_attention: bool = True
    #: Linear layers and layer norms add a bias; `output_bias` decides for the output layer.
    biases: bool = True
    #: "gelu_tanh" is the approximation that is also called gelu_new.
    activation: Activation = "relu"
    #: activation(gate(x)) * inner(x) in place of activation(inner(x)) (Shazeer 2020).
    gated: bool = False
    #: Source and target use one embedding table.
    shared_embedding: bool = True
    #: The output projection is the target embedding.
    tied_output: bool = False
    output_bias: bool = True
    #: The source is wrapped in BOS and in EOS before it is encoded.
    source_bos: bool = True
    source_eos: bool = True
    #: The token that the decoder starts with, if it is not BOS (BART: EOS, Marian: PAD).
    start_id: int | None = setting(None, least=0)
    #: The decoder writes BOS after its start, before the target (BART as transformers trains it).
    target_bos: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        self._check_attention()
        if self.norm_kind == "std" and self.d_model < 2:
            raise ValueError("d_model is 1: expected at least 2 for the norm_kind std")
        if self.shared_embedding and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                f"shared_embedding needs one vocabulary size, got source_vocab_size "
                f"{self.source_vocab_size} and target_vocab_size {self.target_vocab_size}"
            )
        if self.start_id is not None and self.start_id >= self.target_vocab_size:
            known = f"a target id, 0 to {self.target_vocab_size - 1}"
            raise wrong("start_id", self.start_id, known)

    def _check_attention(self) -> None:
        name = "d_model" if self.attention_width is None else "attention_width"
        width = getattr(self, name)
        if width > _MOST:
            raise wrong(name, width, f"at most {_MOST}")
        if width < 1 or width % self.head_count:
            raise wrong(name, width, f"a multiple of head_count {self.head_count}")
        columns = self.rotary_columns or 0
        if columns % 2 or columns > self.head_dim:
            most = f"at most the head's {self.head_dim} columns"
            raise wrong("rotary_columns", columns, f"an even number, {most}")
        if self.relative_buckets < 4:
            raise wrong("relative_buckets", self.relative_buckets, "at least 4")
        if self.relative_max_distance <= self.relative_buckets // 2:
            more = f"more than half of relative_buckets {self.relative_buckets}"
            raise wrong("relative_max_distance", self.relative_max_distance, more)

    def decoder_start(self, bos_id: int | None) -> int:
        """The token that the decoder starts with: start_id, otherwise the vocabulary's BOS.

        Raises ValueError if there is neither.
        """
        start = bos_id if self.start_id is None else self.start_id
        if start is None:
            raise ValueError("start_id is None: expected an id, as the vocabulary has no BOS")
        return start

    def source_frame(self, bos_id: int | None, eos_id: int) -> tuple[list[int], list[int]]:
        """The ids before and after a source's, if the encoder needs BOS and EOS."""
        begin = [bos_id] if self.source_bos and bos_id is not None else []
        return begin, [eos_id] if self.source_eos else []

    @property
    def head_dim(self) -> int:
        """Columns of one attention head."""
        return (self.attention_width or self.d_model) // self.head_count

    @property
    def decoder_size(self) -> int:
        """Weights that every pass of the decoder reads."""
        shapes = self.weight_shapes().items()
        return sum(prod(shape) for name, shape in shapes if name.startswith(("decoder.", "output")))

    def first_layers(self, count: int, name: str) -> ModelSpec:
        """The model of the decoder's first layers. Raises ValueError, naming it, for a count."""
        if not 1 <= count < self.decoder_layers:
            expected = f"at least 1, and less than the model's {self.decoder_layers} decoder layers"
            raise ValueError(f"{name} is {count}: expected {expected}")
        return replace(self, decoder_layers=count)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelSpec:
        """The spec that `to_json` wrote; absent fields have their defaults.

        Raises ValueError for unknown fields, and if a vocabulary size is absent.
        """
        if unknown := sorted(set(values) - {field.name for field in fields(cls)}):
            raise ValueError(
                f"unknown model fields: {', '.join(unknown)}; expected d_model (the width), "
                "encoder_layers, decoder_layers, head_count, feed_forward, max_positions, or "
                "another field of ModelSpec"
            )
        if missing := sorted({"source_vocab_size", "target_vocab_size"} - set(values)):
            raise ValueError(f"missing model fields: {', '.join(missing)}")
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        return asdict(self)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight, in molspec's own names. Linear weights are [out, in]."""
        return dict(self._weight_shapes())

    def _weight_shapes(self) -> _Shapes:
        d = self.d_model
        yield "source_embedding", (self.source_vocab_size, d)
        if not self.shared_embedding:
            yield "target_embedding", (self.target_vocab_size, d)
        if self.positions == "learned":
            yield "source_positions", (self.max_positions, d)
            yield "target_positions", (self.max_positions, d)
        if self.rotary_columns is not None:
            yield "rotary", (self.max_positions, self.rotary_columns)
        for stack, layers, attentions in (
            ("encoder", self.encoder_layers, ("self_attention",)),
            ("decoder", self.decoder_layers, ("self_attention", "cross_attention")),
        ):
            biases = self.relative_buckets, self.head_count
            if self.positions == "relative" and not self.relative_per_layer:
                yield f"{stack}.relative_bias", biases
            if self.embedding_norm:
                yield from self._norm(f"{stack}.embedding_norm")
            for index in range(layers):
                yield from self._layer(f"{stack}.layers.{index}", attentions)
                if self.positions == "relative" and self.relative_per_layer:
                    yield f"{stack}.layers.{index}.relative_bias", biases
            if self.final_norm:
                yield from self._norm(f"{stack}.norm")
        if not self.tied_output:
            yield "output.weight", (self.target_vocab_size, d)
        if self.output_bias:
            yield "output.bias", (self.target_vocab_size,)

    def _layer(self, layer: str, attentions: tuple[str, ...]) -> _Shapes:
        d, width = self.d_model, self.head_count * self.head_dim
        for attention in attentions:
            for part in ("query", "key", "value"):
                yield from self._linear(f"{layer}.{attention}.{part}", width, d)
            yield from self._linear(f"{layer}.{attention}.output", d, width)
            yield from self._norm(f"{layer}.{attention}_norm")
        for part in ("gate", "inner") if self.gated else ("inner",):
            yield from self._linear(f"{layer}.feed_forward.{part}", self.feed_forward, d)
        yield from self._linear(f"{layer}.feed_forward.outer", d, self.feed_forward)
        yield from self._norm(f"{layer}.feed_forward_norm")

    def _linear(self, name: str, out_size: int, in_size: int) -> _Shapes:
        yield f"{name}.weight", (out_size, in_size)
        if self.biases:
            yield f"{name}.bias", (out_size,)

    def _norm(self, name: str) -> _Shapes:
        yield f"{name}.weight", (self.d_model,)
        if self.biases and self.norm_kind != "rms":
            yield f"{name}.bias", (self.d_model,)


@dataclass(frozen=True)
class HeadsSpec:
    """The form of draft heads. Raises ValueError, naming the field.

    "low-rank" (Andronov et al. 2026, Digital Discovery, D5DD00573F): every head has `width` values
    of its own, mixed by a residual layer and raised to d_model by a matrix that all share.
    "blockwise" (Stern et al. 2018, Blockwise Parallel Decoding): every head is a feed-forward layer
    of inner size `width` with a residual connection.
    """

    kind: HeadKind = setting("low-rank", "low-rank or blockwise.")
    head_count: int = setting(8, "Tokens guessed after the next one.", most=64)
    width: int = setting(64, "Inner values of a head.", most=4096)

    def __post_init__(self) -> None:
        check_fields(self)
