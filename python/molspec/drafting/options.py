"""The options of drafters: data only, from which `build` makes the drafters."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeGuard, runtime_checkable

from molspec.common.fields import check_counts, check_fields, setting, wrong

if TYPE_CHECKING:
    from typing import TypeAlias

    from molspec.decoding import Drafter  # needs torch


@dataclass(frozen=True)
class NoDraft:
    """No drafts: one token for each decoder pass."""


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


@dataclass(frozen=True)
class PathsDraft(TreeDraft):
    """The same while it pays, for a module without a cache.

    Such a module evaluates every path of a tree as a row from its first token. Trees that it does
    not confirm then cost several times the plain loop.
    """


@dataclass(frozen=True)
class _OwnDraft:
    """A tree of the likeliest tokens of a drafter in the model's checkpoint."""

    node_budget: int = setting(16, most=10_000)
    min_probability: float = setting(0.01, most=1)

    #: Its name as an option, the part of the model that it needs, and the command to train it.
    kind: ClassVar[str]
    needs: ClassVar[str]
    command: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def min_log_prob(self) -> float:
        """Natural log of min_probability."""
        return math.log(self.min_probability) if self.min_probability else -math.inf


@dataclass(frozen=True)
class HeadsDraft(_OwnDraft):
    """A tree of the tokens that the model's draft heads find likeliest. The model must have heads.

    node_budget: draft tokens in each decoder pass.
    min_probability: tokens that are less likely to be accepted are not drafted.

    Raises ValueError, naming the option.
    """

    kind, needs, command = "heads", "draft heads", "train-heads"


@dataclass(frozen=True)
class SpecDraft(_OwnDraft):
    """A tree of the next k tokens that a Spec-Drafter (Xia et al. 2023) guesses at once.

    node_budget: draft tokens in each decoder pass of the model.
    min_probability: tokens that are less likely to be accepted are not drafted.
    k: tokens guessed at once; by default as many as it was trained for.

    Raises ValueError, naming the option.
    """

    k: int | None = setting(None, most=1000)

    kind, needs, command = "spec", "Spec-Drafter", "train-drafter"


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


@dataclass(frozen=True)
class ModelDraft:
    """A small model drafts for the target model (Leviathan et al. 2023), on the CPU.

    The target model verifies its drafts, so answers do not change. For samples, both models use the
    same noise.

    model: the name or path of a model with the target model's vocabulary, which a target reads
        once; for `molspec.decode`, a module of any kind that it takes.
    gamma: tokens drafted before each verification; "adaptive" chooses it from the measured
        acceptance and cost.
    drafter: the drafter of the small model: "none", "tree", or a ModelDraft of an even smaller one.
    width: likeliest tokens to propose at each position. More than one helps exact beams only; their
        default is the width of the beam.
    dtype: of its matrices: float32, bfloat16 or int8.

    Raises ValueError, naming the option.
    """

    model: Any
    gamma: int | Literal["adaptive"] = "adaptive"
    drafter: AnyDrafter = "none"
    width: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.gamma != "adaptive":
            if isinstance(self.gamma, str):
                raise wrong("gamma", self.gamma, "'adaptive' or a whole number of at least 1")
            check_counts(self, gamma=1000)
        if self.width is not None:
            check_counts(self, width=1000)
        inner = resolve(self.drafter)
        if isinstance(inner, LookAhead | OwnDraft):
            raise ValueError(f"drafter is {inner!r}: expected one that drafts after a single path")


@runtime_checkable
class DrafterMaker(Protocol):
    """A user's configuration: it builds a drafter once the model is known that it drafts for."""

    def build(self, context: Any) -> Any:
        """Build a drafter for one set of options; a DraftContext has the model's tokens."""


#: Native drafters.
Drafting = NoDraft | WindowDrafts | TreeDraft
#: Drafters in a model's checkpoint.
OwnDraft = HeadsDraft | SpecDraft
#: molspec's own configurations.
_Configuration = Drafting | OwnDraft | LookAhead | ModelDraft
#: A drafter that is not a name.
if TYPE_CHECKING:
    AnyConfiguration: TypeAlias = _Configuration | Drafter | DrafterMaker
    #: The type of the option `drafter`.
    AnyDrafter: TypeAlias = str | AnyConfiguration
else:  # `is_drafter` has the methods of Drafter
    AnyConfiguration = object
    AnyDrafter = str | object

_NAMES: dict[str, Drafting | OwnDraft] = {
    "none": NoDraft(),
    "windows": WindowDrafts(),
    "tree": TreeDraft(),
    "heads": HeadsDraft(),
    "spec": SpecDraft(),
}
#: Names of drafters.
DRAFTERS = tuple(_NAMES)


def is_drafter(value: object) -> TypeGuard[ModelDraft | Drafter | DrafterMaker]:
    """Whether the object has a drafter's methods, or such a drafter is built from it."""
    if isinstance(value, type):
        return False
    methods = ("start", "propose", "release")
    drafts = all(hasattr(value, name) for name in methods)
    return drafts or isinstance(value, ModelDraft | DrafterMaker)


def check_drafter(name: str, value: object, besides: str = "") -> None:
    """Raise ValueError, naming the option, unless it is a drafter; `besides`: other choices."""
    if not (isinstance(value, _Configuration) or is_drafter(value)):
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
            raise wrong(name, value, "none beside a configuration of the drafter")
        return drafter
    if drafter not in _NAMES:
        raise wrong("drafter", drafter, f"one of {', '.join(_NAMES)}")
    made: Any = _NAMES[drafter]
    for name, value in options.items():
        if name not in vars(made):
            raise ValueError(f"{name} is {value}: drafter {drafter!r} has no such option")
    changed: AnyConfiguration = replace(made, **options)
    return changed
