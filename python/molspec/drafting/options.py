"""molspec's drafters and their options. The drafters themselves are native: csrc/drafting."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import MISSING, dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    TypeGuard,
    cast,
    runtime_checkable,
)

from molspec.common.fields import check_fields, setting

if TYPE_CHECKING:
    from molspec import _native
    from molspec.checkpoints import Checkpoint
    from molspec.decoding import Drafter
    from molspec.drafting.build import DraftContext
    from molspec.drafting.spec_drafter import SpecModel


@dataclass(frozen=True)
class NoDraft:
    """No drafts: one token for each decoder pass."""

    def native(self) -> _native.NoDraftOptions:
        """Options of the native drafter."""
        from molspec import _native

        return _native.NoDraftOptions()


@dataclass(frozen=True)
class WindowDrafts:
    """Windows of the source, the drafts of Andronov et al. (J. Cheminform. 2025, "Drafting").

    draft_length: tokens of a window; the last windows of the source may be shorter.
    draft_count: windows a query.
    choice: "even" spreads them over the source, as in the published code; "first" takes the first
        ones, as in the paper.
    dilution: further drafts, each window with one inner token left out.
    smart: take only windows that begin with a hypothesis's last token, and draft the rest of them.

    Raises ValueError, naming the option.
    """

    draft_length: int = setting(10, most=1000)
    draft_count: int = setting(23, most=1000)
    choice: Literal["even", "first"] = "even"
    dilution: bool = False
    smart: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    def native(self) -> _native.WindowOptions:
        """Options of the native drafter."""
        from molspec import _native

        options = {name: value for name, value in vars(self).items() if name != "choice"}
        return _native.WindowOptions(even=self.choice == "even", **options)


@dataclass(frozen=True)
class TreeDraft:
    """One token tree of the likeliest continuations: copies of the source, and likely edits.

    node_budget: draft tokens in each decoder pass. Five and the last token fill one tile of the
        CPU's matrix kernels; use 16 to 32 on a device whose passes are expensive.
    max_depth: tokens of the longest path.
    min_probability: tokens that are less likely to be accepted are not drafted.

    Raises ValueError, naming the option.
    """

    node_budget: int = setting(5, most=10_000)
    max_depth: int = setting(64, most=1000)
    min_probability: float = setting(0.01, most=1)

    def __post_init__(self) -> None:
        check_fields(self)

    def native(self) -> _native.TreeOptions:
        """Options of the native drafter."""
        from molspec import _native

        return _native.TreeOptions(**vars(self))


@dataclass(frozen=True)
class _OwnDraft:
    """A tree of the likeliest tokens of a drafter in the model's checkpoint."""

    node_budget: int = setting(16, most=10_000)
    min_probability: float = setting(0.01, most=1)
    tree: bool = False

    #: Its name without the tree, the part of the model that it needs, and the command to train it.
    kind: ClassVar[str]
    needs: ClassVar[str]
    command: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def min_log_prob(self) -> float:
        """Natural log of min_probability."""
        return math.log(self.min_probability) if self.min_probability else -math.inf

    @property
    def name(self) -> str:
        """Its name as an option."""
        return f"tree+{self.kind}" if self.tree else self.kind

    @abstractmethod
    def _build(self, context: DraftContext) -> Drafter:
        """Build the checkpoint's drafter."""

    def build(self, context: DraftContext) -> Drafter:
        """Build the drafter, merged with the copying tree if `tree` is true.

        Raises ValueError if the model has none.
        """
        from molspec.drafting.merging import MergedDrafter

        own = self._build(context)
        if not self.tree:
            return own
        tree = TreeDraft(self.node_budget, min_probability=self.min_probability)
        return MergedDrafter([context.build(tree), own], self.node_budget, context.guess)


@dataclass(frozen=True)
class HeadsDraft(_OwnDraft):
    """A tree of the tokens that the model's draft heads find likeliest. The model must have heads.

    node_budget: draft tokens in each decoder pass.
    min_probability: tokens that are less likely to be accepted are not drafted.
    tree: whether to merge it with the tree of copies, see `merged`.

    Raises ValueError, naming the option.
    """

    kind, needs, command = "heads", "draft heads", "train-heads"

    def _build(self, context: DraftContext) -> Drafter:
        from molspec.drafting.heads import HeadsDrafter

        return HeadsDrafter(self, context.own_heads(self), context.guess)


@dataclass(frozen=True)
class SpecDraft(_OwnDraft):
    """A tree of the next k tokens that a Spec-Drafter (Xia et al. 2023) guesses at once.

    node_budget: draft tokens in each decoder pass of the model.
    min_probability: tokens that are less likely to be accepted are not drafted.
    tree: whether to merge it with the tree of copies, see `merged`.
    model: the folder of a model with its drafter, as `molspec train-drafter` writes it; by default
        the target model's own drafter.
    k: tokens guessed at once; by default as many as it was trained for.

    Raises ValueError, naming the option.
    """

    model: str | FilePath | None = None
    k: int | None = setting(None, most=1000)

    kind, needs, command = "spec", "Spec-Drafter", "train-drafter"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, str | FilePath | None):
            kind = type(self.model).__name__
            raise ValueError(f"model is a {kind}: expected the name or the path of a model")

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint `model`, read once. Raises CheckpointError if there is none."""
        from molspec.drafting.build import read_drafter

        assert self.model is not None
        return read_drafter(self.model)

    @cached_property
    def target(self) -> str:
        """The fingerprint of the model that `model` drafts for."""
        return self.checkpoint.fingerprint(with_drafters=False)

    @cached_property
    def opened(self) -> dict[str, SpecModel]:
        """The Spec-Drafter of `model` by dtype, opened once for all calls."""
        return {}

    def _build(self, context: DraftContext) -> Drafter:
        return context.own_spec(self).open(self, context.guess, context.query_count)


@dataclass(frozen=True)
class LookAhead:
    """How exact beams draft: beam search runs ahead on guessed tokens.

    node_budget: draft tokens of a query in each decoder pass.
    steps: maximum steps of beam search to run ahead.
    min_confidence: nodes that standard beam search is less likely to reach are not drafted.
    drafter: its trees are the guesses. Beyond them, or without a drafter, the n-gram model guesses.

    Raises ValueError, naming the option.
    """

    node_budget: int = setting(MISSING, most=10_000)
    steps: int = setting(12, most=1000)
    min_confidence: float = setting(0.4, most=1)
    drafter: AnyConfiguration | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.drafter is not None:
            check_drafter("drafter", self.drafter)
        if isinstance(self.drafter, LookAhead):
            raise ValueError(f"drafter is {self.drafter!r}: expected one that does not look ahead")


@runtime_checkable
class DrafterMaker(Protocol):
    """A configuration: it builds a drafter once the model is known that it drafts for."""

    def build(self, context: DraftContext) -> Drafter:
        """Build a drafter for one set of options; `context.guess` has the model's tokens."""


#: Native drafters.
Drafting = NoDraft | WindowDrafts | TreeDraft
#: Drafters in a model's checkpoint.
OwnDraft = HeadsDraft | SpecDraft
#: A drafter given as an object.
if TYPE_CHECKING:
    AnyConfiguration: TypeAlias = Drafting | OwnDraft | LookAhead | Drafter | DrafterMaker
    #: The type of the option `drafter`.
    AnyDrafter: TypeAlias = str | AnyConfiguration
else:  # the module of the protocol Drafter needs torch; `is_drafter` has its methods
    AnyConfiguration = object
    AnyDrafter = str | object

_NAMES: dict[str, Drafting | OwnDraft] = {
    "none": NoDraft(),
    "windows": WindowDrafts(),
    "tree": TreeDraft(),
    "heads": HeadsDraft(),
    "tree+heads": HeadsDraft(tree=True),
    "spec": SpecDraft(),
    "tree+spec": SpecDraft(tree=True),
}
#: Names of drafters.
DRAFTERS = tuple(_NAMES)


def is_drafter(value: object) -> TypeGuard[Drafter | DrafterMaker]:
    """Whether the object has a drafter's methods, or builds such an object."""
    if isinstance(value, type | OwnDraft):
        return False
    methods = ("start", "propose", "release")
    return isinstance(value, DrafterMaker) or all(hasattr(value, name) for name in methods)


def check_drafter(name: str, value: object, besides: str = "") -> None:
    """Raise ValueError, naming the option, unless it is a drafter; `besides`: other choices."""
    if not (isinstance(value, Drafting | OwnDraft | LookAhead) or is_drafter(value)):
        if isinstance(value, type):
            raise ValueError(f"{name} is the class {value.__name__}: expected an object of it")
        raise ValueError(
            f"{name} is {value!r}: expected {besides}a configuration of molspec.drafting, or an "
            "object with the methods of molspec.drafting.Drafter"
        )


def resolve(drafter: AnyDrafter, **options: int) -> AnyConfiguration:
    """Make a named drafter with its options; return a drafter unchanged.

    Raises ValueError for an unknown name and for an option that the drafter does not have.
    """
    if not isinstance(drafter, str):
        check_drafter("drafter", drafter, f"one of {', '.join(_NAMES)}, ")
        for name, value in options.items():
            raise ValueError(
                f"{name} is {value}: expected none beside a configuration of the drafter"
            )
        return drafter
    if drafter not in _NAMES:
        raise ValueError(f"drafter is {drafter!r}: expected one of {', '.join(_NAMES)}")
    made: Any = _NAMES[drafter]
    for name, value in options.items():
        if name not in vars(made):
            raise ValueError(f"{name} is {value}: drafter {drafter!r} has no such option")
    return cast("AnyConfiguration", replace(made, **options))
