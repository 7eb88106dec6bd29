"""acceptance_length: how many tokens of each draft the model confirms."""

from collections.abc import Iterator
from functools import partial

import torch
from tests import reference

from case import Case
from molspec.engine import ops


def cases() -> Iterator[Case]:
    """The paper's drafts, 23 of 10 tokens, for one hypothesis and a batch; about half agree."""
    for row_count in (23, 230, 7360):
        generator = torch.Generator().manual_seed(0)
        drafts = torch.randint(4, 200, (row_count, 10), generator=generator)
        differs = torch.rand(drafts.shape, generator=generator) < 0.15
        arguments = (drafts, torch.full((row_count,), 10), drafts + differs)
        yield Case(
            "acceptance_length",
            f"{row_count} drafts",
            partial(ops.acceptance_length, *arguments),
            partial(reference.acceptance_length, *arguments),
        )
