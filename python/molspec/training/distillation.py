"""What a model answers to the sources of prepared data: what its drafters are trained on.

Sequence-level distillation (Kim and Rush 2016), as Xia et al. 2023 train their Spec-Drafter: the
drafter has to guess the model's own answers, not what is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from molspec.journal import Journal, Kind
from molspec.text import Vocabulary
from molspec.training.prepared import PairTable

#: Sources -> the best answer of each, None where there is none; SMILES, as they come.
Answer = Callable[[Iterable[str]], Iterator[str | None]]


def _text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError(value)
    return value


_ANSWERS: Kind[str | None] = Kind("answers", _text, _text)


def distilled(
    table: PairTable,
    vocabulary: Vocabulary,
    answer: Answer,
    path: Path,
    settings: Mapping[str, Any],
    progress: Callable[[Iterator[str | None], int, int], Iterator[str | None]],
) -> PairTable:
    """Pairs of a table's sources and their answers; a journal at `path` keeps what is done.

    settings: what decides the answers; a journal of others is refused with a ValueError.
    progress: is given the answers to come, how many there are in all and how many are done.
    """
    journal = Journal(path, settings, _ANSWERS)
    known = list(journal.records())
    sources = [ids for ids, _ in table.pairs()]
    rest = answer(vocabulary.decode(ids) for ids in sources[len(known) :])
    with journal.appending() as append:
        for text in progress(rest, len(sources), len(known)):
            append(text)
            known.append(text)
    return PairTable.pack(_encoded(vocabulary, sources, known))


def _encoded(
    vocabulary: Vocabulary, sources: Sequence[list[int]], answers: Sequence[str | None]
) -> Iterator[tuple[list[int], list[int]]]:
    for source, text in zip(sources, answers, strict=True):
        if text is not None:
            yield source, vocabulary.encode(text)
