"""Simulates greedy decoding with a drafter, as if the model's answers were the targets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from molspec import _native
from molspec.decoding import Statistics
from molspec.drafting.options import Drafting


def simulate(
    drafting: Drafting,
    guess: _native.GuessModel,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    eos_id: int,
) -> Statistics:
    """Decode every source as if the model's greedy answer were its target.

    A call verifies the drafts after the last token and emits the accepted ones and one more; the
    first call drafts after BOS. Ids are without BOS and EOS. `seconds["draft"]` is processor time.
    """
    drafter = _native.NativeDrafter(drafting.native(), guess)
    sums = Statistics()
    for source_ids, target_ids in pairs:
        output_ids = [*target_ids, eos_id]
        drafter.start(source_ids)
        sums.queries += 1
        sums.emitted_tokens += len(output_ids)
        written = 0
        while written < len(output_ids):
            begin = time.thread_time()
            tree = drafter.propose(output_ids[:written])
            sums.seconds["draft"] += time.thread_time() - begin
            sums.decoder_calls += 1
            sums.drafted_tokens += len(tree)
            node = -1
            # The last token is EOS, which is never drafted: there is always one more token.
            while (node := tree.child(node, output_ids[written])) >= 0:
                sums.accepted_tokens += 1
                written += 1
            written += 1
    return sums
