"""What drafting knows of a model's targets: the n-gram model beside the weights, and making one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from molspec import _native
from molspec.drafting.configurations import TreeDraft
from molspec.drafting.simulation import simulate
from molspec.text import Vocabulary

#: Source ids and target ids, without BOS and EOS.
Pair = tuple[Sequence[int], Sequence[int]]

#: Subtracted from every count; all that was tried from 0.5 to 0.8 drafts alike.
_DISCOUNT = 0.6
#: Pairs of the trial that tells whether to rewrite sources: for training and for the trial itself.
_TRIAL_PAIRS, _TRIED_PAIRS = 6_000, 300


def guess_model(
    vocabulary: Vocabulary, ngram: bytes | None, start_id: int | None = None
) -> _native.GuessModel:
    """What drafting knows of a loaded model: its tokens and, where it has one, its n-gram model.

    start_id is what the decoder starts with, where it is not BOS.
    Raises ValueError if the n-gram model is damaged or of another vocabulary.
    """
    return _native.GuessModel(**_tokens_and_roles(vocabulary, start_id), ngram=ngram)


def build_ngram(
    vocabulary: Vocabulary,
    pairs: Sequence[Pair],
    *,
    min_gain: float = 3.0,
    rewrites: bool | None = None,
) -> bytes:
    """The content of ngram.bin: what targets have where they do not copy, and where they do.

    min_gain: bits that an entry must save on the pairs; the knob for the size.
    rewrites: whether targets are looked for in the source's molecules written from every atom, too.
        It helps where targets are written from other atoms than their sources, and costs time. If
        not given, a trial on a part of the pairs decides.

    The same pairs give the same bytes. Raises ValueError, naming what is wrong, for an id outside
    of the vocabulary, a negative `min_gain`, or where there are no pairs.
    """
    if not (math.isfinite(min_gain) and min_gain >= 0):
        raise ValueError(f"min_gain is {min_gain}: expected a number of at least 0")
    if not pairs:
        raise ValueError("pairs is empty: expected pairs of source ids and target ids")
    if rewrites is None:
        rewrites = _rewriting_pays(vocabulary, pairs, min_gain)
    trainer = _native.GuessTrainer(**_tokens_and_roles(vocabulary), rewrites=rewrites)
    for source_ids, target_ids in pairs:
        trainer.add(source_ids, target_ids)
    return trainer.build(discount=_DISCOUNT, min_gain=min_gain)


def _rewriting_pays(vocabulary: Vocabulary, pairs: Sequence[Pair], min_gain: float) -> bool:
    """Whether a model that rewrites needs fewer decoder calls on pairs that it has not seen."""
    spread = pairs[:: max(1, len(pairs) // _TRIAL_PAIRS)]
    tried_count = min(_TRIED_PAIRS, len(spread) // 2)
    tried, seen = spread[:tried_count], spread[tried_count:]

    def calls(rewrites: bool) -> int:
        ngram = build_ngram(vocabulary, seen, min_gain=min_gain, rewrites=rewrites)
        guess = guess_model(vocabulary, ngram)
        return simulate(TreeDraft(), guess, tried, vocabulary.eos_id).decoder_calls

    return calls(True) < calls(False)


def _tokens_and_roles(vocabulary: Vocabulary, start_id: int | None = None) -> dict[str, Any]:
    bos_id = vocabulary.bos_id if start_id is None else start_id
    if bos_id is None:
        raise ValueError("start_id is None: expected an id, as the vocabulary has no BOS")
    return {
        "tokens": [
            token if vocabulary.atomwise else f"<{index}>"  # a piece has no part in SMILES
            for index, token in enumerate(vocabulary.tokens)
        ],
        "pad": vocabulary.pad_id,
        "bos": bos_id,
        "eos": vocabulary.eos_id,
        "unk": vocabulary.pad_id if vocabulary.unk_id is None else vocabulary.unk_id,
    }
