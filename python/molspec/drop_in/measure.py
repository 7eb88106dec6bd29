"""Measures the conventions of modules with torch's transformer layers from their behaviour.

The layers have their sizes. Embeddings, positions and scales can be written in any way, so they are
measured at the input of the encoder and the decoder; the output layer is the matrix of the module
that turns the decoder's output into its logits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molspec.checkpoints.names import TORCH_LAYERS, take
from molspec.engine.torch.module import EncoderDecoder
from molspec.model.positions import sinusoidal_positions
from molspec.model.spec import Activation, ModelSpec

_ACTIVATIONS: tuple[tuple[Activation, Any, type[nn.Module]], ...] = (
    ("relu", F.relu, nn.ReLU),
    ("gelu", F.gelu, nn.GELU),
    ("silu", F.silu, nn.SiLU),
)
#: Two ways to compute the same float64 differ by less.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class _Stack:
    """One side of a module: its layers, and the tables whose sum is its input."""

    layers: Any
    tokens: Tensor
    positions: Tensor


Run = Callable[[Tensor], Any]


def measure(
    module: nn.Module, model: EncoderDecoder, max_positions: int
) -> tuple[ModelSpec, dict[str, Tensor]]:
    """Spec and weights of a float64 module of which `model` is the interface.

    Raises ValueError, naming the part that is not torch's transformer.
    """

    def decode(ids: Tensor) -> Tensor:
        memory = model.encode(torch.ones(len(ids), 1, dtype=torch.int64, device=ids.device))
        mask = torch.zeros(len(ids), 1, dtype=torch.bool, device=ids.device)
        return model.decode_unpadded(ids, memory, mask)

    encoder = _stack(module, nn.TransformerEncoder, model.encode, max_positions, model.device)
    decoder = _stack(module, nn.TransformerDecoder, decode, max_positions, model.device)
    output = _output(module, decoder, decode, model.device)
    return _assemble(encoder, decoder, output)


def _stack(
    module: nn.Module, kind: type[nn.Module], run: Run, max_positions: int, device: torch.device
) -> _Stack:
    """Find a side's layers and split its input into rows of the token and of the position."""
    found = [part for part in module.modules() if isinstance(part, kind)]
    if len(found) != 1:
        raise ValueError(f"the module has {len(found)} parts nn.{kind.__name__}: expected one")
    layers: Any = found[0]
    vocab_size = _vocab_size(module, run, device)

    def entry(ids: Tensor) -> Tensor:
        with _recorded(layers) as calls:
            run(ids.to(device))
        hidden, _ = calls[0]
        return hidden if layers.layers[0].self_attn.batch_first else hidden.transpose(0, 1)

    first = entry(torch.arange(vocab_size)[:, None])[:, 0]
    try:
        shifted = entry(torch.ones(1, max_positions, dtype=torch.int64))[0]
    except (IndexError, RuntimeError) as error:
        longest = _longest(entry, max_positions)
        works = f"; max_positions={longest} is the longest that works" if longest else ""
        raise ValueError(
            f"max_positions is {max_positions}: the module itself fails there, {error}{works}"
        ) from error
    zero = torch.zeros_like(first[0])
    zero[1::2] = 1.0  # of sinusoids: position 0
    tokens, positions = first - zero, shifted - shifted[0] + zero
    length = min(4, max_positions)
    some = torch.arange(2 * length, device=tokens.device).reshape(2, length) % vocab_size
    expected = tokens[some] + positions[:length]
    if not torch.allclose(entry(some), expected, atol=_ROUNDING, rtol=_ROUNDING):
        raise ValueError(
            f"the input of nn.{kind.__name__} is not the sum of a row a token and a row a position"
        )
    return _Stack(layers, tokens, positions)


def _longest(entry: Callable[[Tensor], Tensor], failing: int) -> int:
    """Positions of the longest input that the module takes; 0 if it takes none."""

    def fails(length: int) -> bool:
        try:
            entry(torch.ones(1, length, dtype=torch.int64))
        except (IndexError, RuntimeError):
            return True
        return False

    return bisect_left(range(1, failing), True, key=fails)


def _vocab_size(module: nn.Module, run: Run, device: torch.device) -> int:
    """The number of rows of the nn.Embedding that takes the token ids."""
    ids = torch.tensor([[1, 0, 0]], device=device)
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    for table in tables:
        with _recorded(table) as calls:
            run(ids)
        if any(torch.equal(entry.reshape(-1), ids[0]) for entry, _ in calls):
            return table.num_embeddings
    raise ValueError("no nn.Embedding of the module is looked up with the token ids")


@contextmanager
def _recorded(part: nn.Module) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Record the first argument and the result of a part's calls."""
    calls: list[tuple[Tensor, Tensor]] = []

    def record(
        _: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], result: Any
    ) -> None:
        calls.append((next(iter((*arguments, *named.values()))), result))

    handle = part.register_forward_hook(record, with_kwargs=True)
    try:
        yield calls
    finally:
        handle.remove()


def _output(
    module: nn.Module, decoder: _Stack, run: Run, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Find the matrix and the bias that make logits, or their log_softmax, of its output."""
    last = len(decoder.tokens) - 1
    with _recorded(decoder.layers) as calls:
        logits = run(torch.tensor([[last, last - 1]], device=device)).reshape(2, -1)
    hidden = calls[0][1].reshape(2, -1)
    size = logits.shape[1]
    parameters = list(module.parameters())
    biases = [p for p in parameters if p.shape == (size,)]
    for weight in parameters:
        if weight.shape != (size, hidden.shape[1]):
            continue
        for bias in (*biases, torch.zeros_like(logits[0])):
            found = F.linear(hidden, weight, bias)
            if any(
                torch.allclose(each, logits, atol=_ROUNDING)
                for each in (found, found.log_softmax(-1))
            ):
                return weight, bias
    raise ValueError("the logits are no linear layer of the module over the decoder's output")


def _assemble(
    encoder: _Stack, decoder: _Stack, output: tuple[Tensor, Tensor]
) -> tuple[ModelSpec, dict[str, Tensor]]:
    state = {f"encoder.{name}": value for name, value in encoder.layers.state_dict().items()}
    state |= {f"decoder.{name}": value for name, value in decoder.layers.state_dict().items()}
    state |= {"source_embedding": encoder.tokens, "target_embedding": decoder.tokens}
    state |= {"output.weight": output[0], "output.bias": output[1]}
    spec = _spec(encoder, decoder, len(output[1]))
    if spec.positions == "learned":
        state |= {"source_positions": encoder.positions, "target_positions": decoder.positions}
    return spec, take(state, spec, TORCH_LAYERS, absent=r"bias$")


def _spec(encoder: _Stack, decoder: _Stack, target_vocab_size: int) -> ModelSpec:
    layers = [*encoder.layers.layers, *decoder.layers.layers]
    length, d_model = encoder.positions.shape
    sinusoids = sinusoidal_positions(length, d_model).to(encoder.positions.device)
    is_sinusoidal = all(
        torch.equal(stack.positions.float(), sinusoids) for stack in (encoder, decoder)
    )
    return ModelSpec(
        source_vocab_size=len(encoder.tokens),
        target_vocab_size=target_vocab_size,
        d_model=d_model,
        head_count=_common("self_attn.num_heads", layers),
        encoder_layers=len(encoder.layers.layers),
        decoder_layers=len(decoder.layers.layers),
        feed_forward=_common("linear1.out_features", layers),
        max_positions=length,
        norm="pre" if _common("norm_first", layers) else "post",
        norm_eps=_common("norm1.eps", layers),
        final_norm=_common("norm", [encoder.layers, decoder.layers], lambda norm: norm is not None),
        positions="sinusoidal" if is_sinusoidal else "learned",
        activation=_common("activation", layers, _activation),
        shared_embedding=torch.equal(encoder.tokens, decoder.tokens),
    )


def _common(
    path: str, parts: Sequence[Any], read: Callable[[Any], Any] = lambda value: value
) -> Any:
    """Read a value that all parts must share. Raises ValueError if they differ."""
    found = {read(attrgetter(path)(part)) for part in parts}
    if len(found) != 1:
        raise ValueError(
            f"{path} differs between layers, {', '.join(map(str, found))}: expected one value"
        )
    return found.pop()


def _activation(function: Any) -> Activation:
    for name, plain, kind in _ACTIVATIONS:
        exact = getattr(function, "approximate", "none") == "none"
        if function is plain or (isinstance(function, kind) and exact):
            return name
    raise ValueError(f"activation is {function}: expected relu, gelu or silu")
