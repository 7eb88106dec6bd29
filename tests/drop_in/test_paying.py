"""Drafts for modules without a cache: they stop where they do not pay, and go on where they do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from molspec import decode
from molspec.decoding import DraftTree
from molspec.drafting import Path
from molspec.drop_in.paying import PayingDrafter
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer

LENGTH = 60


class Fixed:
    """Drafts two tokens after every path, and one beside them."""

    def __init__(self) -> None:
        self.count = 0

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        pass

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        self.count += len(paths)
        return [DraftTree([3, 3, 4], [-1, 0, -1], [-0.1, -0.2, -2.0]) for _ in paths]

    def release(self, row: int) -> None:
        pass


def written(token_ids: Sequence[int], drafter: PayingDrafter) -> int:
    """Columns of a decoder that writes the tokens, with the drafts that it confirms."""
    length = columns = 0
    drafter.start(0, [])
    while length < len(token_ids):
        (tree,) = drafter.propose([Path(0, list(token_ids[:length]), 0.0)])
        leaves = [length + 3, length + 2] if len(tree) else [length + 1]
        columns += sum(leaves)
        node = -1
        while length < len(token_ids) and (node := tree.child(node, token_ids[length])) >= 0:
            length += 1
        length += 1
    drafter.release(0)
    return columns


def plain(count: int) -> int:
    return count * (count + 1) // 2


def test_wrong_drafts_cost_a_few_columns() -> None:
    inner = Fixed()
    drafter = PayingDrafter(inner)
    columns = sum(written([5] * 200, drafter) for _ in range(3))
    assert 1.0 < columns / (3 * plain(200)) < 1.04
    assert inner.count < 60


def test_right_drafts_go_on() -> None:
    inner = Fixed()
    assert written([3] * 200, PayingDrafter(inner)) < 0.7 * plain(200)
    assert inner.count == 67  # three tokens a call


def test_a_query_that_pays_lets_others_draft_again() -> None:
    inner = Fixed()
    drafter = PayingDrafter(inner)
    written([5] * 200, drafter)
    stopped = inner.count
    written([3] * 200, drafter)
    assert inner.count > stopped + 40


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
    ids = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": LENGTH}
    found = decode(model, sources, **ids)
    columns = 0
    again = decode(model, sources, **ids)
    assert columns <= 1.1 * count * plain(LENGTH)
    assert torch.equal(found.sequences, again.sequences)
    alone = decode(model, sources, **ids, drafter="none")
    assert torch.equal(found.sequences, alone.sequences)
