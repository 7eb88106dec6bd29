"""select_hypotheses: selects a beam's next hypotheses from all candidates of a query."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from tests import reference

from case import Case
from molspec.engine import ops


def cases() -> Iterator[Case]:
    """Beams of one query and of a batch, each hypothesis with as many candidates as the beam."""
    for query_count, beam_size in ((1, 5), (1, 10), (1, 25), (32, 10)):
        generator = torch.Generator().manual_seed(0)
        shape = (query_count, beam_size**2)
        parents = torch.arange(beam_size).repeat_interleave(beam_size).expand(shape).contiguous()
        arguments = (
            -torch.rand(shape, generator=generator, dtype=torch.float64),
            parents,
            torch.randint(0, 200, shape, generator=generator),
            torch.full((query_count,), beam_size**2),
            beam_size,
        )
        yield Case(
            "select_hypotheses",
            f"{query_count} queries, beam {beam_size}",
            partial(ops.select_hypotheses, *arguments),
            partial(reference.select_hypotheses, *arguments),
        )
