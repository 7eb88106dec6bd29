"""Draft heads: guesses of the tokens after the next one, from the model's last hidden state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molspec.model import copying, random_numbers
from molspec.model.spec import HeadsSpec, ModelSpec


def weight_shapes(spec: HeadsSpec, d_model: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights of heads of this form."""
    with torch.device("meta"):
        heads = DraftHeads(spec, torch.empty(1, d_model), None)
    return {name: tuple(weight.shape) for name, weight in heads.state_dict().items()}


@copying.copied_between_processes
@dataclass(frozen=True, eq=False)
class HeadsWeights:
    """Draft heads of a model: weights have the names and shapes of `weight_shapes`."""

    spec: HeadsSpec
    weights: Mapping[str, Tensor]

    def open(self, model: ModelSpec, weights: Mapping[str, Tensor]) -> DraftHeads:
        """Make the heads of the model that has these weights."""
        with random_numbers.kept_random_numbers():
            heads = new_heads(self.spec, model, weights)
        heads.load_state_dict({name: weight.float() for name, weight in self.weights.items()})
        return heads.eval()


def new_heads(spec: HeadsSpec, model: ModelSpec, weights: Mapping[str, Tensor]) -> DraftHeads:
    """Untrained heads of the model that has these weights."""
    embedding = "source_embedding" if model.shared_embedding else "target_embedding"
    output = weights[embedding if model.tied_output else "output.weight"]
    return DraftHeads(spec, output, weights.get("output.bias"))


@copying.copied_between_processes
class DraftHeads(nn.Module):
    """Heads of a model whose classifier they share: its weight [vocab, d_model] and bias [vocab].

    New ones guess the classifier's own prediction from the hidden state.
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

        Head k guesses token k + 2 after the path of the hidden state; the model predicts the first.
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
