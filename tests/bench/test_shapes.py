"""Models in larger shapes compute the same as the original model."""

from __future__ import annotations

import pytest
import torch

from molspec.checkpoints import Checkpoint
from molspec.model.transformer import Transformer
from shapes import Shape, reshaped
from tests import tiny


def log_probs(checkpoint: Checkpoint, source_ids: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    model = Transformer(checkpoint.spec, pad_id=checkpoint.vocabulary.pad_id).eval()
    model.load_state_dict(dict(checkpoint.weights))
    with torch.inference_mode():
        result: torch.Tensor = model(source_ids, ids).log_softmax(-1)
    return result


@pytest.mark.parametrize(("layers", "times", "units"), [(0, 2, 0), (2, 1, 7), (1, 4, 16)])
def test_a_larger_model_computes_the_same(layers: int, times: int, units: int) -> None:
    checkpoint = tiny.checkpoint()
    spec = checkpoint.spec
    layer_count = max(spec.encoder_layers, spec.decoder_layers)
    shape = Shape(layer_count + layers, spec.d_model * times, spec.feed_forward + units)
    larger = reshaped(checkpoint, shape)
    assert larger.spec.d_model == shape.d_model
    assert larger.spec.encoder_layers == larger.spec.decoder_layers == shape.layers
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, spec.target_vocab_size, (2, 2, 9), generator=generator)
    expected = log_probs(checkpoint, *ids)
    torch.testing.assert_close(log_probs(larger, *ids), expected, rtol=0, atol=1e-4)


def test_a_smaller_shape_is_refused() -> None:
    checkpoint = tiny.checkpoint()
    with pytest.raises(ValueError, match=r"^shape is Shape\(layers=.*: expected at least"):
        reshaped(checkpoint, Shape(1, checkpoint.spec.d_model + 1, checkpoint.spec.feed_forward))
