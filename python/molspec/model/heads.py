"""Draft heads: guesses of the tokens behind the next one, from the model's last hidden state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HeadKind = Literal["low-rank", "blockwise"]
#: What is larger is a slip of the hand.
_LARGEST = {"head_count": 64, "width": 4096}


@dataclass(frozen=True)
class HeadsSpec:
    """The form of draft heads.

    kind: "low-rank" (Andronov et al. 2026, Digital Discovery, D5DD00573F): every head has `width`
        values of its own, mixed by a residual layer and raised to d_model by a matrix that all
        share. "blockwise" (Stern et al. 2018, Blockwise Parallel Decoding): every head is a
        feed-forward layer of inner size `width` with a residual connection.
    head_count: tokens that are guessed behind the next one.

    Raises ValueError, naming the field.
    """

    kind: HeadKind = "low-rank"
    head_count: int = 8
    width: int = 64

    def __post_init__(self) -> None:
        if self.kind not in get_args(HeadKind):
            raise ValueError(f"kind is {self.kind!r}: expected {' or '.join(get_args(HeadKind))}")
        for name, most in _LARGEST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"{name} is {value!r}: expected a whole number from 1 to {most}")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> HeadsSpec:
        """Build the form from JSON values. Raises ValueError for unknown fields."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"unknown fields of heads: {', '.join(unknown)}")
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        return asdict(self)


class DraftHeads(nn.Module):
    """Heads of a model whose classifier they share: its weight [vocab, d_model] and bias [vocab].

    New ones guess what the classifier alone makes of the hidden state.
    """

    output_weight: Tensor
    output_bias: Tensor

    def __init__(self, spec: HeadsSpec, output_weight: Tensor, output_bias: Tensor | None) -> None:
        super().__init__()
        self.spec = spec
        d_model = output_weight.shape[1]
        inner = spec.head_count * spec.width
        self.inner = nn.Linear(d_model, inner)
        if spec.kind == "low-rank":
            self.mixed = nn.Linear(inner, inner)
            nn.init.zeros_(self.mixed.weight)
            nn.init.zeros_(self.mixed.bias)
            self.outer = nn.Linear(spec.width, d_model)
        else:
            self.outer_weights = nn.Parameter(torch.zeros(spec.head_count, spec.width, d_model))
            self.outer_biases = nn.Parameter(torch.zeros(spec.head_count, d_model))
        self.norm = nn.LayerNorm(d_model)
        bias = output_weight.new_zeros(len(output_weight)) if output_bias is None else output_bias
        self.register_buffer("output_weight", output_weight.float(), persistent=False)
        self.register_buffer("output_bias", bias.float(), persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [row, head, vocab] of hidden states [row, d_model].

        Head k guesses token k + 2 of those that follow the path that the hidden state ends: the
        model itself says the first.
        """
        rows = self.inner(hidden)
        if self.spec.kind == "low-rank":
            rows = F.silu(rows + F.silu(self.mixed(rows)))
            changes = self.outer(rows.unflatten(1, (self.spec.head_count, self.spec.width)))
        else:
            rows = F.relu(rows).unflatten(1, (self.spec.head_count, self.spec.width))
            changes = torch.einsum("rhw,hwd->rhd", rows, self.outer_weights) + self.outer_biases
        states: Tensor = self.norm(hidden[:, None] + changes)
        return F.linear(states, self.output_weight, self.output_bias)
