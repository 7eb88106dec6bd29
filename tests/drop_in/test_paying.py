"""Drafts for modules without a cache: they stop where they do not pay, and go on where they do."""

from typing import Any

import pytest
import torch
from torch import Tensor

from molspec import Hypotheses, decode
from molspec.drafting import TreeDraft
from tests.drop_in.models import BOS, EOS, PAD

LENGTH = 60
FIRST = 300  # token
CALL = 64  # columns that a call costs
IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": LENGTH}


class Counted:
    """Two functions that count the columns of the decoder, and those that its calls are worth."""

    def __init__(self) -> None:
        self.columns = 0

    def encode(self, source_ids: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(source_ids, 301).float()

    def decode(self, target_ids: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        self.columns += target_ids.numel() + CALL
        following = torch.arange(target_ids.shape[1]) + 1
        return 9 * self.next(memory, following.clamp(max=memory.shape[1] - 1), target_ids)

    def next(self, memory: Tensor, following: Tensor, target_ids: Tensor) -> Tensor:
        """Writes the source."""
        return memory[:, following]


class Jumping(Counted):
    """Writes the source in another order, so that drafts from it are wrong."""

    def next(self, memory: Tensor, following: Tensor, target_ids: Tensor) -> Tensor:
        return memory[:, 7 * following % memory.shape[1]]


class Mixed(Jumping):
    """Writes a source in its own order if it begins with FIRST."""

    def next(self, memory: Tensor, following: Tensor, target_ids: Tensor) -> Tensor:
        jumped = super().next(memory, following, target_ids)
        return torch.where(memory[:, :1, FIRST:] > 0, memory[:, following], jumped)


def plain(count: int, batch_size: int = 1) -> float:
    """The columns of a query's tokens, with its share of the calls."""
    return count * (count + 1) / 2 + CALL * count / batch_size


def few_tokens(count: int) -> Tensor:
    """Sources of eight different tokens, whose order the drafts guess."""
    return 3 + torch.randint(0, 8, (count, 209), generator=torch.Generator().manual_seed(8))


def decoded(model: Counted, sources: Tensor, **options: object) -> tuple[float, Hypotheses]:
    """Columns as a share of the plain loop's, with those of the tests before; answers."""
    found = decode((model.encode, model.decode), sources, **(IDS | options))
    return model.columns / (len(sources) * plain(LENGTH)), found


# Together, rows are padded too.
@pytest.mark.parametrize(
    ("count", "batch_size", "most"), [(1, 1, 0.04), (3, 1, 0.04), (8, 8, 0.06)]
)
def test_wrong_drafts_cost_a_few_columns(count: int, batch_size: int, most: float) -> None:
    sources, needed = few_tokens(count), count * plain(200, batch_size)
    paying, always, alone = Jumping(), Jumping(), Jumping()
    given = {"max_length": 200, "batch_size": batch_size}
    _, found = decoded(paying, sources, **given)
    _, expected = decoded(alone, sources, **given, drafter="none")
    decoded(always, sources, **given, drafter=TreeDraft())
    assert 0 < paying.columns - alone.columns < most * needed
    assert always.columns - alone.columns > 0.5 * needed
    assert torch.equal(found.sequences, expected.sequences)


@pytest.mark.parametrize("count", [1, 8])
def test_right_drafts_go_on(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    sources = torch.stack([3 + torch.randperm(90, generator=generator)[:70] for _ in range(count)])
    share, found = decoded(Counted(), sources)
    alone, expected = decoded(Counted(), sources, drafter="none")
    assert share < 0.6 * alone
    assert torch.equal(found.sequences, expected.sequences)


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_query_that_pays_lets_others_draft_again(failing: int) -> None:
    generator = torch.Generator().manual_seed(8)
    wrong = few_tokens(failing)
    right = 11 + torch.randperm(289, generator=generator)[None, :209]
    right[:, 0] = FIRST
    given = {"batch_size": 1, "max_length": 200}
    before, after, alone = Mixed(), Mixed(), Mixed()
    decoded(before, wrong, **given)
    decoded(after, torch.cat((wrong, right)), **given)
    decoded(alone, right, **given, drafter="none")
    assert after.columns - before.columns < 0.5 * alone.columns


def test_two_queries_that_are_ahead_cost_the_others_little() -> None:
    generator = torch.Generator().manual_seed(1)
    right = torch.stack([11 + torch.randperm(289, generator=generator)[:209] for _ in range(2)])
    right[:, 0] = FIRST
    sources = torch.cat((right, few_tokens(6)))
    drafted, alone = Mixed(), Mixed()
    decoded(drafted, sources, batch_size=8)
    decoded(alone, sources, batch_size=8, drafter="none")
    assert alone.columns < drafted.columns < 1.05 * alone.columns
