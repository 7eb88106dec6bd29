"""What a model answers to the sources of prepared data: what its drafters are trained on.

Sequence-level distillation (Kim and Rush 2016), as Xia et al. 2023 train their Spec-Drafter: the
drafter has to guess the model's own answers, not what is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molspec.journal import Journal, Kind
from molspec.text import Vocabulary
from molspec.training import prepared
from molspec.training.prepared import PairTable, Prepared


@dataclass(frozen=True)
class Teacher:
    """A model whose answers are learned."""

    #: How the outcome names it.
    name: str
    fingerprint: str
    vocabulary: Vocabulary
    #: Sources -> the best answer of each, None where there is none; SMILES, as they come.
    answer: Callable[[Iterable[str]], Iterator[str | None]]


#: Answers to come, how many there are in all and how many are done -> the same answers.
Progress = Callable[[Iterator[str | None], int, int], Iterator[str | None]]


def _text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError(value)
    return value


_ANSWERS: Kind[str | None] = Kind("answers", _text, _text)
_JOURNAL = "answers.jsonl"


def distil(
    data: Prepared, teacher: Teacher, folder: Path, pairs: int, progress: Progress
) -> Prepared:
    """Write to `folder` the data with the teacher's answers as targets, at most `pairs` of them.

    What is done is kept in a journal there: a killed one goes on. Validation pairs are the
    teacher's answers too. Data that are this teacher's answers already are written as they are.
    Raises ValueError where the vocabularies differ or where the folder's journal is of another
    model or of other data.
    """
    data.check_vocabulary(teacher.vocabulary, teacher.name)
    tables = data.train.spread(pairs), data.validation
    folder.mkdir(parents=True, exist_ok=True)
    if data.description.get("teacher", "").endswith(teacher.fingerprint):
        made = Prepared(data.vocabulary, *tables, data.description)
        prepared.write(made, folder)
        return made
    sources = [[ids for ids, _ in table.pairs()] for table in tables]
    flat = [ids for rows in sources for ids in rows]
    settings = {"teacher": teacher.fingerprint, "data": data.fingerprint, "pairs": pairs}
    journal = Journal(folder / _JOURNAL, settings, _ANSWERS)
    answers = list(journal.records())
    rest = teacher.answer(data.vocabulary.decode(ids) for ids in flat[len(answers) :])
    with journal.appending() as append:
        for text in progress(rest, len(flat), len(answers)):
            append(text)
            answers.append(text)
    cut = len(sources[0])
    train, validation = (
        PairTable.pack(_encoded(data.vocabulary, rows, texts))
        for rows, texts in zip(sources, (answers[:cut], answers[cut:]), strict=True)
    )
    description: dict[str, Any] = {"teacher": f"{teacher.name}, {teacher.fingerprint}"}
    for split, table in zip(prepared.SPLITS, (train, validation), strict=True):
        tokens = sum(len(source) + len(target) for source, target in table.pairs())
        description[split] = {**data.description[split], "pairs": len(table), "tokens": tokens}
    made = Prepared(data.vocabulary, train, validation, {**data.description, **description})
    prepared.write(made, folder)
    return made


def _encoded(
    vocabulary: Vocabulary, sources: Sequence[list[int]], answers: Sequence[str | None]
) -> Iterator[tuple[list[int], list[int]]]:
    for source, text in zip(sources, answers, strict=True):
        if text is not None:
            yield source, vocabulary.encode(text)
