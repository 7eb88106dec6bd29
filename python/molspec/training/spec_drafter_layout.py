"""Prefixes of targets with MASKs after them: the input of a Spec-Drafter's decoder.

Its MASK is PAD, which a decoder reads nowhere else. The last token of a prefix guesses the next
token, the first MASK the next one, and so on: k - 1 MASKs guess k tokens together with the
last token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """A decoder's input [row, position], and the tokens to guess there.

    `wanted` is PAD where nothing is guessed. `ahead` counts the tokens between the prefix and the
    guessed one. `truth` has the true tokens at the MASKs.
    """

    ids: Tensor
    places: Tensor
    visible: Tensor
    wanted: Tensor
    ahead: Tensor
    truth: Tensor
    masks: Tensor
    #: The pair of each row.
    pairs: Tensor
    #: Whether a position sees the next one, and so its own token to guess if that is revealed.
    sees_next: bool

    def revealed(self, places: Tensor, pad_id: int) -> Layout:
        """The layout with the truth at some MASKs."""
        wanted = self.wanted
        if self.sees_next:
            wanted = wanted.masked_fill(F.pad(places[:, 1:], (0, 1)), pad_id)
        return replace(self, ids=torch.where(places, self.truth, self.ids), wanted=wanted)


#: Targets [pair, length] with BOS and EOS, lengths of prefixes [pair, prefix] with BOS, tokens to
#: guess, and the id of PAD -> the decoder's input.
Lay = Callable[[Tensor, Tensor, int, int], Layout]


def lengths_of(targets: Tensor, pad_id: int) -> Tensor:
    """Lengths of targets, with the first token, which is PAD in T5 and Marian."""
    return 1 + (targets[:, 1:] != pad_id).sum(1)


def causal(targets: Tensor, prefixes: Tensor, k: int, pad_id: int) -> Layout:
    """No position sees later ones, so a prefix does not depend on the MASKs after it.

    All prefixes of a target are one row: the target, and a chain of MASKs for each prefix.
    """
    pair_count, length = targets.shape
    device = targets.device
    real = torch.arange(length - 1, device=device)
    places = prefixes[:, :, None] + torch.arange(k - 1, device=device)
    lengths = lengths_of(targets, pad_id)
    needed = (places < lengths[:, None, None] - 1).any(0)  # of some row
    chain, mask = needed.nonzero(as_tuple=True)
    places = places[:, chain, mask]
    padded = F.pad(targets, (0, 1), value=pad_id)
    here, wanted = (padded.gather(1, (places + step).clamp(max=length)) for step in (0, 1))
    mask_count = len(chain)
    size = length - 1 + mask_count
    visible = torch.zeros(pair_count, size, size, dtype=torch.bool, device=device)
    visible[:, : length - 1, : length - 1] = (real[:, None] >= real)[None]
    visible[:, length - 1 :, : length - 1] = real < prefixes[:, chain, None]
    before = (chain[:, None] == chain) & (mask[:, None] >= mask)
    visible[:, length - 1 :, length - 1 :] = before[None]
    ahead = torch.cat([torch.zeros_like(real), mask + 1])
    return Layout(
        ids=torch.cat([targets[:, :-1], torch.full_like(places, pad_id)], 1),
        places=torch.cat([real.expand(pair_count, -1), places], 1),
        visible=visible[:, None],
        wanted=torch.cat([targets[:, 1:], wanted], 1),
        ahead=ahead.expand(pair_count, -1),
        truth=torch.cat([targets[:, :-1], here], 1),
        masks=(ahead > 0).expand(pair_count, -1),
        pairs=torch.arange(pair_count, device=device),
        sees_next=False,
    )


def published(targets: Tensor, prefixes: Tensor, k: int, pad_id: int) -> Layout:
    """All positions of a prefix and its MASKs see each other (Xia et al. 2023): a row each."""
    pair_count, prefix_count = prefixes.shape
    device = targets.device
    begin = prefixes.flatten()[:, None]
    size = int(begin.max()) + k - 1
    at = torch.arange(size, device=device)
    truth = F.pad(targets, (0, max(0, size + 1 - targets.shape[1])), value=pad_id)
    truth = truth.repeat_interleave(prefix_count, 0)
    masks = (at >= begin) & (at < begin + k - 1)
    guessed = (at >= begin - 1) & (at < begin + k - 1)
    seen = at < begin + k - 1
    return Layout(
        ids=torch.where(at < begin, truth[:, :size], pad_id),
        places=at.expand(len(begin), -1),
        visible=seen[:, None, None, :].expand(-1, 1, size, -1),
        wanted=torch.where(guessed, truth[:, 1 : size + 1], pad_id),
        ahead=(at - begin + 1).clamp(0, k - 1),
        truth=truth[:, :size],
        masks=masks,
        pairs=torch.arange(pair_count, device=device).repeat_interleave(prefix_count),
        sees_next=True,
    )
