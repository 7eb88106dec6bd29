"""The drafters and their options. Their work is native: csrc/text/drafter.h."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from molspec import _native
from molspec.text import Vocabulary


@dataclass(frozen=True)
class NoDraft:
    """Nothing is drafted: one token a decoder pass."""

    def native(self) -> _native.NoDraftOptions:
        """Options of the native drafter."""
        return _native.NoDraftOptions()


@dataclass(frozen=True)
class WindowDrafts:
    """Windows of the source, as Andronov et al. draft (J. Cheminform. 2025, "Drafting").

    draft_length: tokens of a window; tails of the source that are shorter are kept.
    draft_count: windows a query.
    choice: "even" spreads them over the source as the published code does, "first" takes the first
        ones as the paper says.
    dilution: further drafts, each window with one inner token left out.
    smart: only windows that begin with the last token of a hypothesis, which is dropped.

    Raises ValueError, naming the option.
    """

    draft_length: int = 10
    draft_count: int = 23
    choice: Literal["even", "first"] = "even"
    dilution: bool = False
    smart: bool = False

    def __post_init__(self) -> None:
        _check_count("draft_length", self.draft_length)
        _check_count("draft_count", self.draft_count)
        if self.choice not in ("even", "first"):
            raise ValueError(f"choice is {self.choice!r}: expected 'even' or 'first'")

    def native(self) -> _native.WindowOptions:
        """Options of the native drafter."""
        return _native.WindowOptions(
            draft_length=self.draft_length,
            draft_count=self.draft_count,
            even=self.choice == "even",
            dilution=self.dilution,
            smart=self.smart,
        )


@dataclass(frozen=True)
class TreeDraft:
    """One token tree of the likeliest continuations: copied runs of the source and target n-grams.

    node_budget: nodes a decoder pass. Five and the last token are one tile of the CPU's matrix
        kernels; a device whose passes are dear wants 16 to 32.
    max_depth: tokens of the longest path.
    min_probability: what is less likely to be accepted is not drafted.

    Raises ValueError, naming the option.
    """

    node_budget: int = 5
    max_depth: int = 64
    min_probability: float = 0.01

    def __post_init__(self) -> None:
        _check_count("node_budget", self.node_budget)
        _check_count("max_depth", self.max_depth)
        if not 0 <= self.min_probability <= 1:
            raise ValueError(f"min_probability is {self.min_probability}: expected 0 to 1")

    def native(self) -> _native.TreeOptions:
        """Options of the native drafter."""
        return _native.TreeOptions(
            node_budget=self.node_budget,
            max_depth=self.max_depth,
            min_probability=self.min_probability,
        )


Drafting = NoDraft | WindowDrafts | TreeDraft

_NAMES: dict[str, type[Drafting]] = {"none": NoDraft, "windows": WindowDrafts, "tree": TreeDraft}


def resolve(
    drafter: str | Drafting,
    *,
    draft_length: int | None = None,
    draft_count: int | None = None,
    node_budget: int | None = None,
) -> Drafting:
    """A drafter by name with its options, or a configuration as it is.

    Raises ValueError for an unknown name and for an option that the drafter does not have.
    """
    options: dict[str, Any] = {
        name: value
        for name, value in (
            ("draft_length", draft_length),
            ("draft_count", draft_count),
            ("node_budget", node_budget),
        )
        if value is not None
    }
    if not isinstance(drafter, str):
        if options:
            raise ValueError(
                f"{next(iter(options))} is given beside a configuration of the drafter"
            )
        return drafter
    if drafter not in _NAMES:
        raise ValueError(f"drafter is {drafter!r}: expected one of {', '.join(_NAMES)}")
    kind = _NAMES[drafter]
    known = {field.name for field in fields(kind)}
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{name} is {value}: drafter {drafter!r} has no such option")
    return kind(**options)


def guess_model(
    vocabulary: Vocabulary, ngram: bytes | None, start_id: int | None = None
) -> _native.GuessModel:
    """What drafting knows of a loaded model: its tokens and, where it has one, its n-gram model.

    start_id is what the decoder starts with, where it is not BOS.
    Raises ValueError where the n-gram model is damaged or of another vocabulary.
    """
    return _native.GuessModel(**_tokens_and_roles(vocabulary, start_id), ngram=ngram)


def build_ngram(
    vocabulary: Vocabulary,
    targets: Sequence[Sequence[int]],
    order: int = 8,
    min_gain: float = 20.0,
) -> bytes:
    """An n-gram model of targets (token ids without BOS and EOS): the content of ngram.bin.

    order: tokens that it looks at, the next one counted; 1 to 16.
    min_gain: bits that an entry must save on the targets; the knob for the size.

    The result depends on the targets alone, not on their order. Raises ValueError, naming what is
    wrong, for an id outside of the vocabulary or where there are no targets.
    """
    return _native.build_ngram(
        **_tokens_and_roles(vocabulary), targets=targets, order=order, min_gain=min_gain
    )


def _tokens_and_roles(vocabulary: Vocabulary, start_id: int | None = None) -> dict[str, Any]:
    bos_id = vocabulary.bos_id if start_id is None else start_id
    if bos_id is None:
        raise ValueError("start_id is None: expected an id, as the vocabulary has no BOS")
    return {
        "tokens": list(vocabulary.tokens),
        "pad": vocabulary.pad_id,
        "bos": bos_id,
        "eos": vocabulary.eos_id,
        "unk": vocabulary.pad_id if vocabulary.unk_id is None else vocabulary.unk_id,
    }


def factory(drafting: Drafting, guess: _native.GuessModel) -> _native.DrafterFactory:
    """Drafters of one kind for the queries of one model."""
    return _native.DrafterFactory(drafting.native(), guess)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}: expected a whole number of at least 1")
