"""Simulates greedy decoding with a drafter, as if the model's answers were the targets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from molspec import _native
from molspec.drafting.configurations import Drafting


@dataclass(frozen=True)
class DraftStatistics:
    """Sums over queries. `draft_seconds` is processor time of this thread."""

    queries: int = 0
    decoder_calls: int = 0
    nodes: int = 0
    #: Tokens of the outputs, EOS counted.
    emitted_tokens: int = 0
    accepted_tokens: int = 0
    draft_seconds: float = 0.0


def simulate(
    drafting: Drafting,
    guess: _native.GuessModel,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    eos_id: int,
) -> DraftStatistics:
    """Decode every source as if the model's greedy answer were its target.

    A call verifies the drafts after the last token and emits the accepted ones and one more; the
    first call drafts after BOS. Ids are without BOS and EOS.
    """
    drafter = _native.NativeDrafter(drafting.native(), guess)
    clock = time.thread_time
    queries = calls = nodes = emitted = accepted = 0
    seconds = 0.0
    for source_ids, target_ids in pairs:
        output_ids = [*target_ids, eos_id]
        drafter.start(source_ids)
        queries += 1
        written = 0
        while written < len(output_ids):
            begin = clock()
            tree = drafter.propose(output_ids[:written])
            seconds += clock() - begin
            length = acceptance_length(tree.token_ids, tree.parents, output_ids[written:])
            calls += 1
            nodes += len(tree)
            accepted += length
            # The last token is EOS, which is never drafted: there is always one more token.
            written += length + 1
        emitted += len(output_ids)
    return DraftStatistics(queries, calls, nodes, emitted, accepted, seconds)


def acceptance_length(
    token_ids: Sequence[int], parents: Sequence[int], output_ids: Sequence[int]
) -> int:
    """The length of the longest path of a tree, from its root, that is a prefix of the output."""
    children = {
        (parent, token_id): node
        for node, (parent, token_id) in enumerate(zip(parents, token_ids, strict=True))
    }
    node, length = -1, 0
    for token_id in output_ids:
        child = children.get((node, token_id))
        if child is None:
            break
        node, length = child, length + 1
    return length
