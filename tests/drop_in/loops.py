"""Plain decoding loops: one query at a time, the whole prefix through the model at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

NextTokens = Callable[[Sequence[int]], Tensor]
Hypothesis = tuple[list[int], float]


def greedy(next_tokens: NextTokens, bos_id: int, eos_id: int, max_length: int) -> Hypothesis:
    """Greedy decoding; next_tokens(prefix) -> log-probabilities [vocab]."""
    return beam_search(next_tokens, bos_id, eos_id, max_length, 1)[0]


def beam_search(
    next_tokens: NextTokens, bos_id: int, eos_id: int, max_length: int, beam_size: int
) -> list[Hypothesis]:
    """Standard beam search: scores are sums, and finished hypotheses stay in the beam."""
    beam: list[Hypothesis] = [([], 0.0)]
    for _ in range(max_length):
        candidates: list[Hypothesis] = []
        for tokens, score in beam:
            if tokens[-1:] == [eos_id]:
                candidates.append((tokens, score))
                continue
            log_probs = next_tokens([bos_id, *tokens])
            best = log_probs.topk(min(beam_size, len(log_probs)))
            for value, token_id in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                candidates.append(([*tokens, token_id], score + value))
        beam = sorted(candidates, key=lambda hypothesis: -hypothesis[1])[:beam_size]
        if all(tokens[-1:] == [eos_id] for tokens, _ in beam):
            break
    return beam


def module_steps(
    encode: Callable[[Tensor], Tensor],
    decode: Callable[[Tensor, Tensor, Tensor], Tensor],
    source: Sequence[int],
) -> NextTokens:
    """Next-token log-probabilities of a module, for one source without padding."""
    source_ids = torch.tensor([source])
    with torch.no_grad():
        memory = encode(source_ids)

    def next_tokens(prefix: Sequence[int]) -> Tensor:
        with torch.no_grad():
            mask = torch.zeros_like(source_ids, dtype=torch.bool)
            logits = decode(torch.tensor([prefix]), memory, mask)
        return logits[0, -1].log_softmax(dim=-1)

    return next_tokens
