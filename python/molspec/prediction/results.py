"""Answers in text; merging of answers that are the same molecule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from html import escape
from itertools import chain
from typing import Any

from molspec.common.console import shortened
from molspec.common.fields import hints
from molspec.common.task import Task, reaction_smiles
from molspec.decoding import QueryStatistics, Statistics
from molspec.prediction.options import PredictOptions
from molspec.text import canonicalise, plain_smiles, quiet, tokens
from molspec.text.drawing import drawing
from molspec.text.molecules import but_for_stereo
from molspec.text.smiles import with_dots

#: The error of a query all of whose answers were dropped: the options want none of them.
ALL_DROPPED = "no answer is left: each is invalid, unfinished, unchanged or impossible"
_SALT = "several molecules, read as they stand; a salt's molecule alone has other answers"
#: Answers that a notebook shows, and characters of a text.
_MOST_SHOWN, _LONGEST_SHOWN = 10, 1000


@dataclass(frozen=True)
class AnswerField:
    """A field of a prediction, as outputs have it.

    by: the options that give it, each with its value, or `...` for any but the default: then tables
        have its column, and objects have it unless it is the default. None: all have it.
    remark: its text for people, unless it is the default, with {} for the value; "" for none.
    recorded: whether the records of an evaluation have it.
    """

    name: str
    kind: Any
    default: Any
    help: str
    by: Mapping[str, object] | None = None
    remark: str = ""
    recorded: bool = True

    def is_given(self, options: PredictOptions) -> bool:
        """Whether these options give it."""
        return all(
            getattr(options, name) != getattr(PredictOptions, name)
            if value is ...
            else getattr(options, name) == value
            for name, value in (self.by or {}).items()
        )


def given(
    default: object,
    help: str,  # noqa: A002 - the usual name
    *,
    remark: str = "",
    recorded: bool = False,
    **by: object,
) -> Any:
    """A field of `Prediction` that these options give, see `AnswerField`."""
    about = {"help": help, "by": by, "remark": remark, "recorded": recorded}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Prediction:
    """One answer to a query.

    This is the only list of its fields: text, tables, JSON lines, SDF, Parquet, the server's
    OpenAPI, caches, the records of evaluations and the page of predictions are made of it.
    """

    smiles: str = field(metadata={"help": "As the model wrote it."})
    #: The sum over its tokens and EOS. Merged answers have the log of the sum of their
    #: probabilities; with several spellings of a query, of the mean.
    log_prob: float = field(metadata={"help": "Natural log of its probability."})
    finished: bool = field(default=True, metadata={"help": "False if max_length came first."})
    count: int = given(
        1, "Number of equal samples; omitted if 1.", samples=..., merge_duplicates=True
    )
    tolerated: int | None = given(
        None,
        "Relaxed: tokens that the model would not write.",
        remark="{} tokens tolerated",
        verification="relaxed",
    )
    log_prob_after_prefix: float | None = given(
        None, "The part of log_prob after target_prefix.", target_prefix=...
    )
    #: Their sum is log_prob, to the bit, unless answers were merged.
    token_log_probs: tuple[float, ...] | None = given(
        None, "Of each token, and of EOS if it is finished.", token_log_probs=True
    )

    @cached_property
    def canonical(self) -> str | None:
        """RDKit's canonical SMILES; None if the answer is unfinished or not a molecule."""
        return canonicalise(self.smiles.strip(".")) if self.finished else None

    @property
    def probability(self) -> float:
        """The answer's probability, which files and records have too; at most 1."""
        return math.exp(min(0.0, self.log_prob))

    @property
    def is_valid(self) -> bool:
        """Whether RDKit can read the answer as a molecule."""
        return self.canonical is not None

    @classmethod
    def known(
        cls, smiles: str, log_prob: float, finished: bool, canonical: str | None, **more: Any
    ) -> Prediction:
        """An answer with known canonical SMILES."""
        prediction = cls(smiles, log_prob, finished, **more)
        vars(prediction)["canonical"] = canonical
        return prediction

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Prediction:
        """Read the values of JSON. Raises TypeError if they are of something else."""
        given: Any = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
        return cls.known(**given)

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return {**vars(self), "canonical": self.canonical}

    def told(self, recorded: bool = False) -> dict[str, Any]:
        """The fields of an object, in their order; or of a record."""
        return {
            each.name: value
            for each in answer_fields(type(self))
            if ((value := getattr(self, each.name)) != each.default or each.by is None)
            and (each.recorded or not recorded)
        }

    def remarks(self) -> list[str]:
        """Texts for people beside its SMILES and probability."""
        given = [(each, getattr(self, each.name)) for each in answer_fields(type(self))]
        return [each.remark.format(value) for each, value in given if value != each.default]


def answer_fields(kind: Any = None) -> tuple[AnswerField, ...]:
    """The fields of `Prediction`, or of a subclass, in the order of objects."""
    return _answer_fields(kind or Prediction)


@lru_cache
def _answer_fields(kind: Any) -> tuple[AnswerField, ...]:
    smiles, *others = (
        AnswerField(each.name, hints(kind)[each.name], each.default, **each.metadata)
        for each in fields(kind)
    )
    canonical = AnswerField("canonical", str | None, None, "None if it is not a molecule.")
    return smiles, canonical, *others


@dataclass(frozen=True)
class Result:
    """The answers to one query, best first, or the `error` if there are none."""

    query: str
    predictions: tuple[Prediction, ...] = ()
    error: str | None = None
    #: Counts and seconds of the query. Results with equal answers are equal.
    statistics: QueryStatistics = field(default=QueryStatistics(), compare=False)
    #: The task of its model, if the model has one.
    task: Task | None = field(default=None, compare=False)
    #: Of a racemate, an unknown enantiomer or a product of several molecules: what was decoded.
    note: str | None = field(default=None, compare=False)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """`Prediction.probability` of each answer."""
        return tuple(prediction.probability for prediction in self.predictions)

    def answer_with(self, molecule: str) -> Prediction | None:
        """The likeliest answer that has a molecule, in canonical SMILES; None if none has."""
        texts = ((each, (each.canonical or "").split(".")) for each in self.predictions)
        return next((each for each, molecules in texts if molecule in molecules), None)

    @property
    def shares(self) -> tuple[float, ...]:
        """Each answer's share of the probability of all answers: their sum is 1."""
        if not self.predictions:
            return ()
        every = _log_sum(prediction.log_prob for prediction in self.predictions)
        return tuple(math.exp(prediction.log_prob - every) for prediction in self.predictions)

    @property
    def reactions(self) -> tuple[str | None, ...]:
        """Reaction SMILES of the query and each answer; None for an answer that is not a molecule.

        Raises ValueError if the model has no task: it is unknown which side it answers.
        """
        if self.task is None:
            raise ValueError("task is None: expected 'retro' or 'product', of the model")
        query = plain_smiles(self.query).strip()
        return tuple(
            None if found.canonical is None else reaction_smiles(self.task, query, found.canonical)
            for found in self.predictions
        )

    def doubt(self, prediction: Prediction) -> str:
        """Why an answer is no reaction as it stands; "" if nothing says so."""
        if self.task == "retro" and is_unchanged(prediction, self.query):
            return "unchanged: the product is among the reactants"
        if self.task == "retro" and differs_in_stereo(prediction, self.query):
            return "unchanged but for its stereo"
        new = ", ".join(new_elements(self.query, prediction.smiles, self.task))
        return f"impossible: no reactant has {new}" if new else ""

    def _repr_html_(self) -> str:
        """Drawings of the query and its best answers, for notebooks."""
        answers = [
            (f"{100 * each.probability:.1f} %", each.canonical or each.smiles)
            for each in self.predictions[:_MOST_SHOWN]
        ]
        rows = "".join(_row(label, text) for label, text in [("query", self.query), *answers])
        rest = len(self.predictions) - len(answers)
        last = "; ".join(filter(None, (self.note, self.error, f"and {rest} more" * (rest > 0))))
        return f"<table>{rows}<caption>{escape(last[:_LONGEST_SHOWN])}</caption></table>"


class Results(list[Result]):
    """Results in the order of the queries, with the `statistics` of decoding them."""

    def __init__(self, results: Iterable[Result], statistics: Statistics) -> None:
        super().__init__(results)
        self.statistics = statistics

    def _repr_html_(self) -> str:
        rest = len(self) - _MOST_SHOWN  # notebooks draw the first
        drawn = (each._repr_html_() for each in self[:_MOST_SHOWN])
        return "".join(drawn) + f"<p>and {rest} more results</p>" * (rest > 0)

    def to_records(self) -> list[dict[str, Any]]:
        """A row for each answer, or one with the error, all with the same names.

        `pandas.DataFrame` and `polars.DataFrame` take them.
        """
        names = [each.name for each in answer_fields()]
        return [
            {
                "query": result.query,
                "rank": rank if each else None,
                "probability": each and each.probability,
                **{name: each and getattr(each, name) for name in names},
                "note": result.note,
                "error": result.error,
            }
            for result in self
            for rank, each in enumerate(result.predictions or [None], start=1)
        ]


def _row(label: str, text: object) -> str:
    """A molecule in a table of HTML; RDKit may be unable to draw here."""
    shown = str(text)
    try:
        drawn = drawing(shown) or ""
    except ImportError:
        drawn = ""
    code = f"<code>{escape(shown[:_LONGEST_SHOWN])}</code>"
    return f"<tr><th>{label}</th><td>{drawn}</td><td>{code}</td></tr>"


def merge_duplicates(lists: Sequence[Sequence[Prediction]]) -> tuple[Prediction, ...]:
    """Merge answers with the same canonical SMILES into the likeliest, adding their probabilities.

    For several lists, one for each spelling of a query, the result is the mean over the lists; an
    answer that a list lacks has probability 0 there. Sorted by the new log-probs, best first.
    Answers that are not molecules are merged if their texts are equal.
    """
    every = math.log(len(lists))
    merged = [
        _merged(group, _log_sum(prediction.log_prob for prediction in group) - every)
        for group in _equal_ones(sorted(chain.from_iterable(lists), key=_rarity))
    ]
    return tuple(sorted(merged, key=_rarity))


def note_on(query: object, task: Task | None) -> str | None:
    """What is said of a query that marks a racemate, or of a product of several molecules."""
    if not isinstance(query, str):
        return None
    extension = tokens.extension_of(query) if "|" in query else ""
    several = task == "retro" and "." in with_dots(plain_smiles(query))
    drawn = extension and f"decoded as it is drawn, without{shortened(extension)}"
    told = drawn, _SALT if several else None
    return "; ".join(filter(None, told)) or None


def is_unchanged(found: Prediction, query: str) -> bool:
    """Whether all molecules of an answer are the query's, such as a product that is a reactant.

    Or whether it has all of the query's, such as reactants with the product: a route through it
    would lead back to its target.
    """
    parts, given = _molecules(found.canonical), _query_molecules(query)
    return bool(parts and given) and (parts <= given or given <= parts)


def differs_in_stereo(found: Prediction, query: str) -> bool:
    """Whether an answer has all of the query's molecules but for their stereo."""
    parts, given = _molecules(found.canonical), _query_molecules(query)
    with quiet():
        return bool(given) and all(any(but_for_stereo(one, x) for x in parts) for one in given)


@lru_cache(64)
def _query_molecules(query: str) -> set[str]:
    return _molecules(canonicalise(plain_smiles(query).strip().strip(">").replace(">", ".")))


def new_elements(query: str, answer: str, task: Task | None) -> list[str]:
    """Elements of the product that no reactant has; without a task none are known."""
    before, after = map(tokens.elements, (answer, query) if task == "retro" else (query, answer))
    return [] if task is None or "*" in before else sorted(after - before - {"*"})


def _molecules(canonical: str | None) -> set[str]:
    return set() if canonical is None else set(canonical.split("."))


def count_duplicates(samples: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """Merge samples with the same canonical SMILES, with their count; the most frequent first.

    The result has the spelling of the likeliest and the sum of the spellings' probabilities.
    """
    counted = []
    for group in _equal_ones(samples):
        spellings = {sample.smiles: sample.log_prob for sample in group}
        count = sum(sample.count for sample in group)
        counted.append(_merged(group, _log_sum(spellings.values()), count))
    return tuple(sorted(counted, key=lambda each: (-each.count, _rarity(each))))


def _merged(group: Sequence[Prediction], log_prob: float, count: int = 1) -> Prediction:
    """The likeliest of a group, with the group's log_prob and count."""
    best = min(group, key=_rarity)
    changed = {"log_prob": log_prob, "count": count}
    if best.log_prob_after_prefix is not None:
        changed["log_prob_after_prefix"] = best.log_prob_after_prefix + (log_prob - best.log_prob)
    return best.known(**{**best.to_json(), **changed})


def _equal_ones(predictions: Iterable[Prediction]) -> Iterable[list[Prediction]]:
    """Group answers by molecule, or by text if they are none, in their order."""
    groups: dict[str | tuple[str, bool], list[Prediction]] = {}
    for prediction in predictions:
        key = prediction.canonical or (prediction.smiles, prediction.finished)
        groups.setdefault(key, []).append(prediction)
    return groups.values()


def _rarity(prediction: Prediction) -> float:
    return -prediction.log_prob


def _log_sum(log_probs: Iterable[float]) -> float:
    """The log of the sum of at least one probability."""
    values = sorted(log_probs, reverse=True)
    return values[0] + math.log(sum(math.exp(value - values[0]) for value in values))
