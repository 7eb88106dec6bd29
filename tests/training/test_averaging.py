"""Averages of models."""

from dataclasses import replace

import torch

from molspec.text import Vocabulary
from molspec.training.averaging import average
from tests import refused, tiny


def test_mean_of_equal_models_is_that_model() -> None:
    model = replace(tiny.checkpoint().to("bfloat16"), runs_in={"cpu": "int8"})
    mean = average([model] * 3, [0.2, 0.3, 0.5])
    for name, weight in model.weights.items():
        assert torch.equal(mean.weights[name], weight.float())
    assert (mean.dtype, mean.spec, mean.card) == ("float32", model.spec, None)
    assert mean.runs_in == {}  # another model, which nobody has measured


def test_shares_are_equal_by_default() -> None:
    first, second = tiny.checkpoint(1), tiny.checkpoint(2)
    mean = average([first, second])
    for name, weight in mean.weights.items():
        torch.testing.assert_close(weight, (first.weights[name] + second.weights[name]) / 2)


def test_wrong_models_and_shares_are_refused() -> None:
    model = tiny.checkpoint()
    reordered = Vocabulary((*model.vocabulary.tokens[:3], *model.vocabulary.tokens[:2:-1]))
    other = replace(model, vocabulary=reordered)
    for models, shares, message in (
        ([], None, "models is empty"),
        ([model, model], [1.0], "shares has 1 items: expected 2, one a model"),
        ([model, model], [1.0, 0.0], r"shares has 0\.0: expected positive numbers"),
        ([model, other], None, "model 2 has another vocabulary than the first"),
    ):
        refused(message, average, models, shares)
