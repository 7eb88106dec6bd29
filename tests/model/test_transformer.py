"""Compares the training twin with torch.nn.Transformer and tests every option of the spec."""

import math
from dataclasses import replace

import pytest
import torch
from tests import refused
from tests.engine.models import CONVENTIONS, spec_of
from torch import Tensor, nn

from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer

SPEC = ModelSpec(
    13, 13, d_model=16, head_count=4, encoder_layers=2, decoder_layers=3, feed_forward=24
)
SOURCE = torch.tensor([[1, 5, 6, 7, 8, 2], [1, 9, 4, 2, 0, 0]])
TARGET = torch.tensor([[1, 6, 7, 7, 12], [1, 3, 9, 0, 0]])


def torch_transformer(twin: Transformer, spec: ModelSpec) -> nn.Transformer:
    """torch.nn.Transformer with the twin's weights."""
    sizes = (spec.d_model, spec.head_count, spec.encoder_layers, spec.decoder_layers)
    options = {"norm_first": spec.norm == "pre", "layer_norm_eps": spec.norm_eps}
    transformer = nn.Transformer(
        *sizes, spec.feed_forward, 0.0, spec.activation, batch_first=True, dtype=torch.double,
        **options,
    )  # fmt: skip
    weights = twin.state_dict()
    state = {}
    for name in transformer.state_dict():
        if "in_proj" in name:
            stem, kind = name.rsplit(".in_proj_", 1)
            parts = [weights[f"{rename(stem)}.{part}.{kind}"] for part in ("query", "key", "value")]
            state[name] = torch.cat(parts)
        else:
            state[name] = weights[rename(name)]
    transformer.load_state_dict(state)
    return transformer


def rename(name: str) -> str:
    second = "cross_attention_norm" if name.startswith("decoder") else "feed_forward_norm"
    for theirs, ours in (
        ("self_attn", "self_attention"),
        ("multihead_attn", "cross_attention"),
        ("out_proj", "output"),
        ("linear1", "feed_forward.inner"),
        ("linear2", "feed_forward.outer"),
        ("norm1", "self_attention_norm"),
        ("norm2", second),
        ("norm3", "feed_forward_norm"),
    ):
        name = name.replace(theirs, ours)
    return name


def sinusoid(position: int, column: int) -> float:
    angle = position / 10000 ** (column // 2 * 2 / SPEC.d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


def torch_logits(twin: Transformer, spec: ModelSpec) -> Tensor:
    weights = twin.state_dict()
    table = weights["source_embedding"]
    positions = torch.tensor(
        [[sinusoid(row, column) for column in range(16)] for row in range(8)], dtype=torch.double
    )
    hidden = torch_transformer(twin, spec)(
        table[SOURCE] + positions[: SOURCE.shape[1]],
        table[TARGET] + positions[: TARGET.shape[1]],
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(
            TARGET.shape[1], dtype=torch.double
        ),
        src_key_padding_mask=SOURCE == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    return hidden @ weights["output.weight"].T + weights["output.bias"]


def double_precision_twin(spec: ModelSpec, seed: int = 0) -> Transformer:
    torch.set_default_dtype(torch.double)
    try:
        torch.manual_seed(seed)
        twin = Transformer(spec, dropout=0.0)
    finally:
        torch.set_default_dtype(torch.float32)
    for parameter in twin.parameters():  # so that biases and norms matter too
        nn.init.normal_(parameter, std=0.3)
    return twin


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("gradients", [True, False])
def test_logits_equal_those_of_torch(norm: str, activation: str, gradients: bool) -> None:
    spec = replace(SPEC, norm=norm, activation=activation, norm_eps=1e-3)
    twin = double_precision_twin(spec)
    with torch.set_grad_enabled(gradients):
        logits = twin(SOURCE, TARGET)
    expected = torch_logits(twin, spec)
    torch.testing.assert_close(logits[0], expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(logits[1, :3], expected[1, :3], rtol=0, atol=1e-12)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_weights_have_the_shapes_of_the_spec_and_get_gradients(convention: str) -> None:
    spec = spec_of(convention)
    twin = double_precision_twin(spec)
    shapes = {name: tuple(weight.shape) for name, weight in twin.state_dict().items()}
    assert all(name == "rotary" for name, _ in twin.named_buffers() if name in shapes)
    assert shapes == spec.weight_shapes()
    twin(SOURCE, TARGET).logsumexp(-1).square().sum().backward()
    for name, parameter in twin.named_parameters():
        if "key.bias" not in name:  # softmax ignores a shift of all keys
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_batch_padding_and_later_tokens_do_not_change_logits(convention: str) -> None:
    twin = double_precision_twin(spec_of(convention)).eval()
    in_batch = twin(SOURCE, TARGET)
    single = twin(SOURCE[1:, :4], TARGET[1:, :2])
    torch.testing.assert_close(in_batch[1:, :2], single, rtol=0, atol=1e-12)


def test_rotary_positions_are_relative_and_may_be_given() -> None:
    """The same distances give the same states; places choose the positions of rows."""
    twin = double_precision_twin(replace(SPEC, positions="none", rotary_columns=4)).eval()
    ids, memory = torch.tensor([[5, 6, 7, 8]]), torch.randn(1, 3, 16, dtype=torch.double)
    padding = torch.zeros(1, 3, dtype=torch.bool)
    places = torch.arange(4)[None]
    expected = twin.hidden_states(ids, memory, padding)
    for shift, scale in ((0, 1), (9, 1), (0, 2)):
        given = shift + scale * places
        states = twin.hidden_states(ids, memory, padding, positions=given)
        assert torch.allclose(states, expected, rtol=0, atol=1e-6) == (scale == 1)


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    twin = Transformer(SPEC, dropout=0.5)
    first, second = twin(SOURCE, TARGET), twin(SOURCE, TARGET)
    assert not torch.equal(first, second)
    twin.eval()
    assert torch.equal(twin(SOURCE, TARGET), twin(SOURCE, TARGET))


def test_errors_name_argument_and_value() -> None:
    refused(r"dropout is 1\.5", Transformer, SPEC, dropout=1.5)
    refused("pad_id is 13", Transformer, SPEC, pad_id=13)
    twin = Transformer(replace(SPEC, max_positions=4))
    refused("source_ids has length 6", twin, SOURCE, TARGET)
