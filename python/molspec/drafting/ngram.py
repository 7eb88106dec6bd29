"""The n-gram model of a model's targets, for drafting: loading and making it."""

import math
from collections.abc import Sequence

from molspec import _native
from molspec.drafting import native, options
from molspec.text import Vocabulary

#: Source ids and target ids, without BOS and EOS.
Pair = tuple[Sequence[int], Sequence[int]]

#: Subtracted from every count; all tried values from 0.5 to 0.8 draft equally well.
_DISCOUNT = 0.6
#: Pairs of the trial that decides whether to rewrite sources: for training and for measuring.
_TRIAL_PAIRS, _TRIED_PAIRS = 6_000, 300


def guess_model(
    vocabulary: Vocabulary, ngram: bytes | None, start_id: int | None = None
) -> _native.GuessModel:
    """The data of a loaded model for guesses: its tokens and, if it has one, its n-gram model.

    start_id: the decoder's first token, if it is not BOS; PAD if neither is known (T5, Marian).
    Raises ValueError if the n-gram model is damaged or of another vocabulary.
    """
    starts = (start_id, vocabulary.bos_id, vocabulary.pad_id)
    return _native.GuessModel(
        tokens=[
            token if vocabulary.atomwise else f"<{index}>"  # a piece has no role in SMILES
            for index, token in enumerate(vocabulary.tokens)
        ],
        pad=vocabulary.pad_id,
        bos=next(start for start in starts if start is not None),
        eos=vocabulary.eos_id,
        unk=vocabulary.pad_id if vocabulary.unk_id is None else vocabulary.unk_id,
        ngram=ngram,
    )


def build_ngram(
    vocabulary: Vocabulary,
    pairs: Sequence[Pair],
    *,
    min_gain: float = 3.0,
    rewrites: bool | None = None,
    start_id: int | None = None,
) -> bytes:
    """Make ngram.bin from pairs: an n-gram model of where targets copy their sources, and of edits.

    min_gain: bits that an entry must save on the pairs; it decides the size.
    rewrites: whether to copy also from the source's molecules written from every other atom. It
        helps if targets begin at other atoms than their sources, and costs time. If not given, a
        trial on a part of the pairs decides.
    start_id: as in `guess_model`.

    The same pairs give the same bytes. Raises ValueError for an id outside the vocabulary, a
    negative `min_gain`, or if there are no pairs.
    """
    if not (math.isfinite(min_gain) and min_gain >= 0):
        raise ValueError(f"min_gain is {min_gain}: expected a number of at least 0")
    if not pairs:
        raise ValueError("pairs is empty: expected pairs of source ids and target ids")
    if rewrites is None:
        rewrites = _rewriting_pays(vocabulary, pairs, min_gain, start_id)
    trainer = _native.GuessTrainer(guess_model(vocabulary, None, start_id), rewrites=rewrites)
    for source_ids, target_ids in pairs:
        trainer.add(source_ids, target_ids)
    return trainer.build(discount=_DISCOUNT, min_gain=min_gain)


def _rewriting_pays(
    vocabulary: Vocabulary, pairs: Sequence[Pair], min_gain: float, start_id: int | None
) -> bool:
    """Whether a model with rewriting needs fewer decoder calls on pairs that it has not seen."""
    spread = pairs[:: max(1, len(pairs) // _TRIAL_PAIRS)]
    tried_count = min(_TRIED_PAIRS, len(spread) // 2)
    tried, seen = spread[:tried_count], spread[tried_count:]

    def calls(rewrites: bool) -> int:
        ngram = build_ngram(
            vocabulary, seen, min_gain=min_gain, rewrites=rewrites, start_id=start_id
        )
        guess = guess_model(vocabulary, ngram, start_id)
        return native.simulate(options.TreeDraft(), guess, tried, vocabulary.eos_id).decoder_calls

    return calls(True) < calls(False)
