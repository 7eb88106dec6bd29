"""left_pad: ragged hypotheses aligned at their ends."""

from collections.abc import Iterator
from functools import partial

import torch
from tests import reference

from case import Case
from molspec.engine import ops


def cases() -> Iterator[Case]:
    """The beams of one query, and those of a batch; 20 to 60 tokens each."""
    for row_count in (10, 320):
        generator = torch.Generator().manual_seed(0)
        lengths = torch.randint(20, 60, (row_count,), generator=generator)
        token_ids = torch.randint(4, 200, (int(lengths.sum()),), generator=generator)
        yield Case(
            "left_pad",
            f"{row_count} rows",
            partial(ops.left_pad, token_ids, lengths, 0),
            partial(reference.left_pad, token_ids, lengths, 0),
        )
