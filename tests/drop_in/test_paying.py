"""Drafts for modules without a cache: they stop where they do not pay, and go on where they do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from molspec import Hypotheses, decode
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer

LENGTH = 60
IDS = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": LENGTH}


class Counted:
    """Two functions that count the columns of the decoder."""

    def __init__(self) -> None:
        self.columns = 0

    def encode(self, source_ids: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(source_ids, 200).float()

    def decode(self, target_ids: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        self.columns += target_ids.numel()
        following = torch.arange(target_ids.shape[1]) + 1
        return 9 * self.next(memory, following.clamp(max=memory.shape[1] - 1), target_ids)

    def next(self, memory: Tensor, following: Tensor, target_ids: Tensor) -> Tensor:
        """Writes the source."""
        return memory[:, following]


class Shifted(Counted):
    """Writes numbers that no source has, in an order that nothing guesses."""

    def next(self, memory: Tensor, following: Tensor, target_ids: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(101 + 7 * following % 60 + 0 * target_ids, 200).float()


def plain(count: int) -> int:
    return count * (count + 1) // 2


def decoded(model: Counted, count: int, **options: object) -> tuple[float, Hypotheses]:
    """Columns as a share of the plain loop's, with those of the tests before; answers."""
    generator = torch.Generator().manual_seed(count)
    sources = torch.stack([3 + torch.randperm(90, generator=generator)[:70] for _ in range(count)])
    found = decode((model.encode, model.decode), sources, **IDS, **options)
    return model.columns / (count * plain(LENGTH)), found


@pytest.mark.parametrize("count", [1, 8])
def test_wrong_drafts_cost_a_few_columns(count: int) -> None:
    share, found = decoded(Shifted(), count)
    alone, expected = decoded(Shifted(), count, drafter="none")
    assert 0 < share - alone < 0.08
    assert torch.equal(found.sequences, expected.sequences)


@pytest.mark.parametrize("count", [1, 8])
def test_right_drafts_go_on(count: int) -> None:
    share, found = decoded(Counted(), count)
    alone, expected = decoded(Counted(), count, drafter="none")
    assert share < 0.6 * alone
    assert torch.equal(found.sequences, expected.sequences)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "options",
    [{"verification": "relaxed", "tau": 2.0}, {"verification": "rejection", "samples": 2}],
)
def test_drafts_that_decide_answers_do_not_depend_on_other_queries(options: dict[str, Any]) -> None:
    model = PlainTransformer(vocab_size=40, seed=3)
    sources = torch.randint(3, 40, (8, 50), generator=torch.Generator().manual_seed(1))
    together = decode(model, sources, **IDS, **options, batch_size=8)
    for row, source in enumerate(sources):
        alone = decode(model, source[None], **IDS, **options, batch_size=1)
        length = int(alone.lengths.max())
        assert torch.equal(together.sequences[row, :, :length], alone.sequences[0])


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_random_weights_cost_hardly_more_than_the_plain_loop(count: int) -> None:
    model = PlainTransformer(vocab_size=40, seed=3)
    with torch.no_grad():
        model.next_token_classifier.bias[EOS] = -100.0  # every answer has the full length
    columns = 0
    decode_tgt = model.decode_tgt

    def counted(tgt: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        nonlocal columns
        columns += tgt.numel()
        return decode_tgt(tgt, memory, mask)

    model.decode_tgt = counted  # type: ignore[method-assign]
    sources = torch.randint(3, 40, (count, 50), generator=torch.Generator().manual_seed(count))
    found = decode(model, sources, **IDS)
    columns = 0
    again = decode(model, sources, **IDS)
    assert columns <= 1.1 * count * plain(LENGTH)
    assert torch.equal(found.sequences, again.sequences)
    alone = decode(model, sources, **IDS, drafter="none")
    assert torch.equal(found.sequences, alone.sequences)
