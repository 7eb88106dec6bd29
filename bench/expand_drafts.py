"""expand_drafts: appends every draft of a query to each of its hypotheses."""

from collections.abc import Iterator
from functools import partial

import torch
from tests import reference

from case import Case
from molspec.engine import ops

_LENGTH = 40


def cases() -> Iterator[Case]:
    """The paper's drafts, 23 of 10 tokens, after one hypothesis and after those of a batch."""
    for query_count, beams in ((1, 1), (1, 10), (32, 10)):
        generator = torch.Generator().manual_seed(0)
        queries = torch.arange(query_count).repeat_interleave(beams)
        arguments = (
            torch.randint(4, 200, (len(queries), _LENGTH), generator=generator),
            torch.zeros(len(queries), dtype=torch.int64),
            queries,
            torch.randint(4, 200, (query_count, 23, 10), generator=generator),
        )
        yield Case(
            "expand_drafts",
            f"{query_count} queries, {len(queries)} hypotheses",
            partial(ops.expand_drafts, *arguments),
            partial(reference.expand_drafts, *arguments),
        )
