"""A model's answers to the sources of prepared data, on which its drafters are trained.

Sequence-level distillation (Kim and Rush 2016), as Xia et al. 2023 train their Spec-Drafter: the
drafter has to guess the model's own answers, not the true targets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from molspec.common.console import counted
from molspec.common.journal import Journal, Kind
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.training import prepared
from molspec.training.prepared import EncodedPairs, Prepared


def _text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError(value)
    return value


_REMEDY = "take another output folder to begin anew"
_ANSWERS: Kind[str | None] = Kind("answers", _text, _text, _REMEDY)
_JOURNAL = "answers.jsonl"


def distil(data: Prepared, model: Model, name: str, folder: Path, pairs: int) -> Prepared:
    """Write to `folder` the data with the model's answers as targets, at most `pairs` of them.

    `name` is the model's name in the result. A journal there has the finished answers, so that an
    interrupted run resumes. Validation pairs are the model's answers too; an answer that makes a
    recorded validation pair is not trained on. Sources without a finished answer are left out. Data
    that are this model's answers already are written unchanged.

    Raises ValueError if the vocabularies or tasks differ, if the folder's journal is of another
    model or of other data, or if the folder has other prepared data.
    """
    data.check_model(model.vocabulary, model.task, name)
    teacher = model.context.model
    train = data.train.spread(pairs)
    description = {**data.description, "train": _counts(data.description["train"], train)}
    made = Prepared(data.vocabulary, train, data.validation, description)
    is_answered = data.description.get("teacher", "").endswith(teacher)
    if (folder / prepared.LAST).exists():
        is_own = (folder / _JOURNAL).exists()  # which names its data
        if is_answered:
            is_own = prepared.read(folder).fingerprint == made.fingerprint
        if not is_own:
            raise ValueError(f"output is {folder}: it has other prepared data: take another folder")
    folder.mkdir(parents=True, exist_ok=True)
    if not is_answered:
        settings = {"teacher": teacher, "data": data.fingerprint, "pairs": pairs}
        journal = Journal(folder / _JOURNAL, settings, _ANSWERS)
        sources = [ids for table in (made.train, made.validation) for ids, _ in table.pairs()]
        found = list(journal.records())
        rest = (data.vocabulary.decode(ids) for ids in sources[len(found) :])
        answers = counted(_answers(model, rest), "answers", lambda: len(sources), len(found))
        found += journal.record(answers)
        described = {"aligned": model.aligned, "teacher": f"{name}, {teacher}"}
        made = _answered(made, found, described)
    prepared.write(made, folder)
    return made


def _answered(
    data: Prepared, answers: Sequence[str | None], described: Mapping[str, Any]
) -> Prepared:
    """The data with answers as targets; without unanswered pairs and recorded validation pairs."""
    rest = iter(answers)
    description = {**data.description, **described}
    tables = []
    for split, table in zip(prepared.SPLITS, (data.train, data.validation), strict=True):
        learned = EncodedPairs.pack(
            (source, data.vocabulary.encode(text))
            for (source, _), text in zip(table.pairs(), islice(rest, len(table)), strict=True)
            if text is not None
        )
        if split == "train":
            learned = learned.without(data.validation)
        if len(table) and not len(learned):
            finished = sum(text is not None for text in answers)
            raise ValueError(
                f"{described['teacher']} finished {finished} of {len(answers)} answers, which "
                f"leave no pair for {split}: expected some; does the model belong to the data?"
            )
        description[split] = _counts(data.description[split], learned)
        tables.append(learned)
    train, validation = tables
    return Prepared(data.vocabulary, train, validation, description)


def _counts(described: dict[str, Any], table: EncodedPairs) -> dict[str, Any]:
    reactions = min(described["reactions"], len(table))
    return {**described, **table.counts(), "reactions": reactions}


def _answers(model: Model, texts: Iterable[str]) -> Iterator[str | None]:
    """The best answer to each source as it stands; None if it is not finished."""
    for result in model.predict_stream(texts, PredictOptions(canonical_queries=False)):
        best = result.predictions[0] if result.predictions else None
        yield best.smiles if best is not None and best.finished else None
