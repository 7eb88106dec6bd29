"""Prefixes of targets with MASKs after them: the input of a Spec-Drafter's decoder.

Its MASK is PAD, which a decoder reads nowhere else. The last token of a prefix guesses the next
token, the first MASK the next one, and so on: k - 1 MASKs guess k tokens together with the
last token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """A decoder's input [pair, position], and the tokens to guess there.

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

    def revealed(self, places: Tensor) -> Layout:
        """The layout with the truth at some MASKs: no position sees its own token to guess."""
        return replace(self, ids=torch.where(places, self.truth, self.ids))


def lengths_of(targets: Tensor, pad_id: int) -> Tensor:
    """Lengths of targets, with the first token, which is PAD in T5 and Marian."""
    return 1 + (targets[:, 1:] != pad_id).sum(1)


def laid_out(targets: Tensor, prefixes: Tensor, k: int, pad_id: int) -> Layout:
    """Lay out targets [pair, length] with BOS and EOS and prefixes of them, with k tokens to guess.

    prefixes: lengths [pair, prefix], with BOS.

    No position sees later ones, so a prefix does not depend on the MASKs after it. All prefixes of
    a target are one row: the target, and a chain of MASKs for each prefix.
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
    )
