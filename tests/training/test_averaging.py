"""The mean of models."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from molspec.text import Vocabulary
from molspec.training.averaging import average
from tests import tiny


def test_the_mean_of_equals_is_each_of_them() -> None:
    one = tiny.checkpoint().to("bfloat16")
    mean = average([one] * 3, [0.2, 0.3, 0.5])
    for name, weight in one.weights.items():
        assert torch.equal(mean.weights[name], weight.float())
    assert (mean.dtype, mean.spec, mean.card) == ("float32", one.spec, None)


def test_shares_are_equal_where_not_given() -> None:
    first, second = tiny.checkpoint(1), tiny.checkpoint(2)
    mean = average([first, second])
    for name, weight in mean.weights.items():
        torch.testing.assert_close(weight, (first.weights[name] + second.weights[name]) / 2)


def test_wrong_models_and_shares_are_refused() -> None:
    one = tiny.checkpoint()
    reordered = Vocabulary((*one.vocabulary.tokens[:3], *one.vocabulary.tokens[:2:-1]))
    other = replace(one, vocabulary=reordered)
    for models, shares, message in (
        ([], None, "models is empty"),
        ([one, one], [1.0], "shares has 1 items: expected 2, one a model"),
        ([one, one], [1.0, 0.0], r"shares has 0\.0: expected positive numbers"),
        ([one, other], None, "model 2 has another vocabulary than the first"),
    ):
        with pytest.raises(ValueError, match=message):
            average(models, shares)
