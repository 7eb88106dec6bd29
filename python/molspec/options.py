"""How to decode: what may be asked for; bad combinations end here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Literal, get_args

from molspec.drafting import (
    AnyConfiguration,
    AnyDrafter,
    Drafter,
    DrafterMaker,
    HeadsDraft,
    LookAhead,
    NoDraft,
    SpecDraft,
    TreeDraft,
    WindowDrafts,
    check_count,
    check_number,
    resolve,
)

BeamKind = Literal["exact", "standard", "sbs"]
FinishedPlace = Literal["beam", "apart"]
Verification = Literal["strict", "relaxed", "rejection"]
Judge = Literal["model", "drafter"]

_CHOICES = {
    "beam": (None, *get_args(BeamKind)),
    "finished": get_args(FinishedPlace),
    "verification": get_args(Verification),
    "judge": get_args(Judge),
}

#: Tokens that a prediction has at most where nothing else is asked for, EOS counted.
DEFAULT_MAX_LENGTH = 200
DEFAULT_BATCH_SIZE = 32
#: What is larger is a slip of the hand, and more than memory has room for.
LARGEST = {
    "n_best": 1000,
    "beam_size": 1000,
    "batch_size": 65536,
    "max_length": 1_000_000,
    "views": 1000,
    "widen": 1000,
    "samples": 1000,
    "top_k": 1_000_000,
}
#: What belongs to sampling and has no meaning elsewhere, with what it is where not given.
_OF_SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 0, "replacement": True}
#: What sampling has no use for.
_NOT_OF_SAMPLING = {
    "n_best": 1,
    "beam_size": None,
    "beam": None,
    "length_penalty": 0.0,
    "drop_invalid": False,
    "drop_unchanged": False,
}
#: What belongs to relaxed verification, with what it is where not given: the published values.
_OF_RELAXED = {"beta": 3, "tau": 1.0, "judge": "model"}
_OWN = (HeadsDraft, SpecDraft, Drafter, DrafterMaker)
_CHAINS = (
    "'tree', 'windows', 'heads', 'spec', 'none' or a Drafter",
    (TreeDraft, WindowDrafts, NoDraft, *_OWN),
)
#: What each search takes as its drafter; greedy decoding has no name.
_DRAFTERS: dict[str, tuple[str, tuple[type, ...]]] = {
    "": _CHAINS,
    "sampling": _CHAINS,
    "exact": (
        "'tree', 'heads', 'spec', 'none', a LookAhead or a Drafter",
        (LookAhead, NoDraft, *_OWN),
    ),
    "standard": ("'none'", (NoDraft,)),
    "sbs": ("'windows', 'heads', 'spec', 'none' or a Drafter", (WindowDrafts, NoDraft, *_OWN)),
}


@dataclass(frozen=True)
class PredictOptions:
    """How to decode.

    n_best: answers a query.
    beam_size: hypotheses kept; n_best where not given. Greedy decoding where both are 1.
    beam: "exact" gives standard beam search's own list in fewer passes, "standard" is one pass a
        token, "sbs" the speculative beam search of Andronov et al.: approximate.
    drafter: "none", "windows" or "tree", a configuration of `molspec.drafting`, or an object of
        one's own with the methods of `molspec.drafting.Drafter`. Where not given the search's own:
        "tree", of sbs "windows", and "none" for exact beams where drafting is taken to cost more
        than it saves: on the CPU's engine for those wider than 5 (10 where Intel's AVX-512
        kernels run), on a device for those wider than 7 or more than 1,024 hypotheses of a batch.
        draft_length and draft_count belong to "windows", node_budget (nodes a query and pass) to
        "tree", which chooses nodes by what they cost where it is not given.
    length_penalty: hypotheses rank by log_prob / length ** length_penalty. 0 where answers are
        merged: those rank by their probability.
    finished: where a beam keeps finished hypotheses. In the "beam" they compete with the others;
        "apart" they leave their place to others, as in `generate` of Hugging Face: likelier answers
        at the lower ranks for more nodes, the search going on until no better one can come.
    batch_size: queries under way together.
    max_length: tokens of an answer at most, EOS counted.
    merge_duplicates: answers that are one molecule to RDKit become one, their probabilities added.
    canonical_queries: whether the model is asked in RDKit's canonical SMILES, without atom maps, or
        in the query as it stands; where not given, as its checkpoint says: the bundled models and
        those of `molspec train` are asked in canonical SMILES, which they were trained on.
    views: spellings of each query that are asked, the canonical one and others that begin at other
        atoms, for models that were trained on such (root-aligned SMILES, as `retro` was). Answers
        that are one molecule become one, with the mean of its probabilities over the views: often
        more accurate, for as many times the work (Zhong et al. 2022, test-time augmentation).
    drop_invalid: leave out answers that are no molecule to RDKit, and unfinished ones.
    drop_unchanged: leave out answers that are no reaction: for `retro` those that have the query
        among their molecules, for `product` those that are among the query's.
    widen: how many times as wide a beam may get where fewer than n_best answers are left: the query
        is asked again, by a beam twice as wide each time. With 1 it is asked once.
    samples: answers that are drawn at random, in the order drawn, in place of the best ones. Given
        the seed, a query's samples are one list, whatever drafts, batch, order or threads. With
        merge_duplicates equal ones become one with their `count`, the most frequent first.
    temperature: what log-probabilities are divided by before a token is drawn: below 1 likely
        tokens become likelier. Predictions bear the model's own log_prob, at temperature 1.
    top_k, top_p: draw among the top_k likeliest tokens alone, among the fewest that have the
        probability top_p together; of both, top_k first.
    seed: whole number from 0 below 2**64. Other seeds give other samples.
    replacement: False draws samples that all differ (stochastic beam search, Kool et al. 2019), the
        first as if it were alone, each with its `inclusion`, the probability of being among them.
    verification: which drafts are kept. "strict" keeps what the model says itself, so that drafts
        change no answer. "relaxed" lets greedy decoding keep a draft that is nearly as probable
        (Xia et al. 2023): no more the model's own answer, and another one for another drafter;
        predictions say how many of their tokens were `tolerated`. "rejection" draws samples as
        Leviathan et al. (2023) do: with the same distribution, but dependent on the drafter.
    beta, tau: of relaxed verification: a draft must be among the beta likeliest tokens, and at most
        tau nats below the likeliest one.
    judge: whose probability of the draft that is: the "model"'s, or the "drafter"'s, as in the
        earlier paper.

    Raises ValueError, naming the option, where a value or a combination makes no sense.
    """

    n_best: int = 1
    beam_size: int | None = None
    beam: BeamKind | None = None
    drafter: AnyDrafter | None = None
    draft_length: int | None = None
    draft_count: int | None = None
    node_budget: int | None = None
    length_penalty: float = 0.0
    finished: FinishedPlace = "beam"
    batch_size: int = DEFAULT_BATCH_SIZE
    max_length: int | None = None
    merge_duplicates: bool = False
    canonical_queries: bool | None = None
    views: int = 1
    drop_invalid: bool = False
    drop_unchanged: bool = False
    widen: int = 4
    samples: int | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    replacement: bool = True
    verification: Verification = "strict"
    beta: int = 3
    tau: float = 1.0
    judge: Judge = "model"

    def __post_init__(self) -> None:
        for name, most in LARGEST.items():
            value = getattr(self, name)
            if value is not None or name not in ("beam_size", "max_length", "samples", "top_k"):
                object.__setattr__(self, name, check_count(name, value, most))
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: "
                    f"expected one of {', '.join(filter(None, known))}"
                )
        if self.beam_size is not None and self.beam_size < self.n_best:
            raise ValueError(
                f"beam_size is {self.beam_size}: expected at least n_best {self.n_best}"
            )
        check_number("length_penalty", self.length_penalty)
        for name in ("merge_duplicates", "drop_invalid", "drop_unchanged"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}: expected True or False")
        if not isinstance(self.canonical_queries, bool | None):
            raise ValueError(
                f"canonical_queries is {self.canonical_queries!r}: expected True, False or None"
            )
        if self.beam == "sbs" and self.finished != "beam":
            raise ValueError(f"finished is {self.finished!r}: beam 'sbs' keeps them in the beam")
        if self.length_penalty and (self.merge_duplicates or self.views > 1):
            raise ValueError(
                f"length_penalty is {self.length_penalty}: expected 0 where answers are merged"
            )
        self._check_sampling()
        self._check_verification()
        self._check_drafter()
        if self.drops and self.widen > 1:
            self.searched(2)  # a drafter of greedy decoding is none of a beam

    @property
    def drops(self) -> bool:
        """Whether answers are left out."""
        return self.drop_invalid or self.drop_unchanged

    def searched(self, factor: int = 1) -> PredictOptions:
        """What the search is asked for: where answers are left out, all that its beam holds.

        factor: how many times as wide the beam is to be.
        """
        if not self.drops:
            return self
        width = min(factor * self.width, LARGEST["beam_size"])
        return replace(self, n_best=width, beam_size=None, widen=1)

    def _check_sampling(self) -> None:
        if self.samples is None:
            for name, default in _OF_SAMPLING.items():
                if getattr(self, name) != default:
                    raise ValueError(f"{name} is {getattr(self, name)!r}: expected samples with it")
            return
        for name, default in _NOT_OF_SAMPLING.items():
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: expected {default}, as {self.samples} "
                    "samples are drawn"
                )
        if self.finished != "beam" or self.views != 1:
            name = "views" if self.views != 1 else "finished"
            raise ValueError(
                f"{name} is {getattr(self, name)!r}: expected it not to be given with samples"
            )
        check_number("temperature", self.temperature)
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}: expected a number above 0")
        if self.top_p is not None:
            check_number("top_p", self.top_p, 1)
            if not self.top_p > 0:
                raise ValueError(f"top_p is {self.top_p}: expected more than 0, at most 1")
        object.__setattr__(self, "seed", check_count("seed", self.seed, 2**64 - 1, least=0))
        if not isinstance(self.replacement, bool):
            raise ValueError(f"replacement is {self.replacement!r}: expected True or False")

    def _check_verification(self) -> None:
        if self.verification != "relaxed":
            for name, default in _OF_RELAXED.items():
                if getattr(self, name) != default:
                    raise ValueError(
                        f"{name} is {getattr(self, name)!r}: expected verification='relaxed' with "
                        "it"
                    )
        drawn = self.samples is not None and self.replacement
        for name, holds, search in (
            ("relaxed", self.is_greedy, "greedy decoding"),
            ("rejection", drawn, "samples with replacement"),
        ):
            if self.verification == name and not holds:
                raise ValueError(f"verification is {name!r}: expected it with {search}")
        object.__setattr__(self, "beta", check_count("beta", self.beta))
        check_number("tau", self.tau)
        if self.judge == "drafter" and isinstance(self.drafter_or("tree"), WindowDrafts | NoDraft):
            raise ValueError(
                f"judge is 'drafter': expected a drafter that knows probabilities, not "
                f"{self.drafter!r}"
            )

    @property
    def width(self) -> int:
        """Hypotheses kept."""
        return self.n_best if self.beam_size is None else self.beam_size

    @property
    def answer_count(self) -> int:
        """Answers of a query."""
        return self.n_best if self.samples is None else self.samples

    @property
    def is_greedy(self) -> bool:
        """One hypothesis and no beam asked for."""
        return self.width == 1 and self.beam is None and self.samples is None

    def _check_drafter(self) -> None:
        if self.drafter is None and not self._counts:
            return
        default = {"sbs": "windows", "standard": "none"}.get(self.beam or "", "tree")
        drafter = self.drafter_or(default)
        kind: str = "" if self.is_greedy else self.beam or "exact"
        if self.samples is not None and self.replacement:
            kind = "sampling"
        names, allowed = _DRAFTERS[kind]
        if isinstance(drafter, TreeDraft) and kind == "exact" and self.drafter in (None, "tree"):
            return  # by its name, looking ahead
        if not isinstance(drafter, allowed):
            search = {"": "greedy decoding", "sampling": kind}.get(kind, f"beam {kind!r}")
            raise ValueError(f"drafter is {self.drafter!r}: {search} takes {names}")

    @property
    def _counts(self) -> dict[str, int]:
        """Options of the drafter that are given."""
        names = ("draft_length", "draft_count", "node_budget")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def drafter_or(self, default: str) -> AnyConfiguration:
        """The drafter that is asked for, or one by name."""
        return resolve(default if self.drafter is None else self.drafter, **self._counts)

    def length_limit(self, max_positions: int) -> int:
        """max_length for a model whose position table has max_positions rows.

        Raises ValueError where more is asked for than the model has.
        """
        if self.max_length is None:
            return min(DEFAULT_MAX_LENGTH, max_positions)
        if self.max_length > max_positions:
            raise ValueError(
                f"max_length is {self.max_length}: expected at most {max_positions}, "
                "the model's own"
            )
        return self.max_length


OPTION_NAMES = tuple(field.name for field in fields(PredictOptions))


def check_names(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError, as Python does, for a name that is none of an option; it says what is."""
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f": did you mean {close[0]}?" if close else ":"
            raise TypeError(f"{function} has no option {name!r}{meant} expected {', '.join(known)}")
