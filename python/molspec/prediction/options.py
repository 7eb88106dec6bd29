"""The options of decoding, and the check of their combinations.

This is the only list of options: the command line's flags, the bodies of requests, the docstring of
`PredictOptions` and the page of options are made from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, NamedTuple

from molspec.common.console import quoted
from molspec.common.fields import check_fields, described, differing, http_setting, setting, wrong
from molspec.drafting import LookAhead, NoDraft, TreeDraft, WindowDrafts, resolve
from molspec.drafting.options import DRAFTERS, AnyConfiguration, AnyDrafter

BeamKind = Literal["exact", "standard", "sbs"]
Verification = Literal["strict", "relaxed", "rejection"]
Search = Literal["greedy", "exact", "standard", "sbs", "sampling"]

#: Default maximum tokens of a prediction, EOS counted.
DEFAULT_MAX_LENGTH = 200
#: Maximum hypotheses of a beam: a larger number is a typing error, and would exceed the memory.
WIDEST_BEAM = 1000
#: Options by their names in transformers, CTranslate2 and Syntheseus.
OURS = dict.fromkeys(("num_beams", "beams", "beam_width"), "beam_size")
OURS |= dict.fromkeys(("num_return_sequences", "num_hypotheses", "num_results"), "n_best")
OURS |= {"max_new_tokens": "max_length", "do_sample": "samples"}
#: Options of a named drafter.
DRAFT_COUNTS = ("draft_length", "draft_count", "node_budget")


class _Takes(NamedTuple):
    """What goes with a search: the only place that says it.

    called: the search, in errors. unfit: drafters that it cannot use; it can decode without one.
    verification: the kind that it has beside strict. refused: options that must keep their default.
    ahead: whether its "tree" is a LookAhead, on the same guesses. default: its own drafter.
    """

    called: str
    unfit: tuple[type, ...]
    verification: str | None = None
    refused: tuple[str, ...] = ()
    ahead: bool = False
    default: str = "tree"

    def drafter(self, requested: object, made: object) -> bool:
        """Whether it takes a drafter, by the request for it and as it is made of that."""
        is_own = self.ahead and requested == "tree"
        return is_own or isinstance(made, NoDraft) or not isinstance(made, self.unfit)


_SEARCHES: dict[Search, _Takes] = {
    "greedy": _Takes("greedy decoding", (LookAhead,), "relaxed"),
    "exact": _Takes("beam 'exact'", (TreeDraft, WindowDrafts), ahead=True),
    "standard": _Takes("beam 'standard'", (object,), default="none"),
    "sbs": _Takes("beam 'sbs'", (LookAhead, TreeDraft), refused=("finished",), default="windows"),
    "sampling": _Takes(
        "samples",
        (LookAhead,),
        "rejection",
        (
            *("n_best", "beam_size", "beam", "length_penalty", "finished", "augmentations"),
            *("drop_invalid", "drop_unchanged", "drop_impossible"),
        ),
    ),
}
ANSWERS, BEAMS, DRAFTS = "Answers", "Beams", "Drafts"
SAMPLES, RELAXED = "Samples", "Relaxed verification"
#: The options of each group, which a request to the server may set too.
_of_answers, _of_beams, _of_drafts, _of_samples, _relaxed = (
    partial(http_setting, group=group) for group in (ANSWERS, BEAMS, DRAFTS, SAMPLES, RELAXED)
)


@dataclass(frozen=True)
class PredictOptions:
    """How to decode. Raises ValueError, naming the option, for a bad value or combination."""

    n_best: int = _of_answers(
        1, "Number of answers for each query.", most=WIDEST_BEAM, flags=("--n-best", "-n")
    )
    beam_size: int | None = _of_beams(
        None,
        "Number of hypotheses in the beam; n_best by default.",
        more="Greedy decoding if both are 1.",
        most=WIDEST_BEAM,
    )
    beam: BeamKind | None = _of_beams(
        None,
        "Beam search: exact, standard or sbs; by default greedy for one answer, else exact.",
        more='"exact" gives standard beam search\'s own list in fewer passes. "standard" takes one '
        'pass for each token. "sbs" is the speculative beam search of Andronov et al., which is '
        "approximate.",
    )
    drafter: AnyDrafter | None = _of_drafts(
        None,
        f"Drafter: {', '.join(DRAFTERS)}; by default the one that is fastest for the search.",
        more="Also a configuration of `molspec.drafting`, or an object with the methods of "
        '`molspec.drafting.Drafter`. The default is "tree"; for sbs "windows"; and "none" for '
        "exact beams if drafting costs more than it saves. On the CPU those are beams wider than "
        "3, or wider than 10 with Intel's AVX-512 kernels or decoder weights of 16 MiB or more. On "
        "a device those are all beams of batches, which are decoded without drafts there whatever "
        "the drafter, and beams wider than 25 with `batch_size=1`.",
    )
    draft_length: int | None = _of_drafts(
        None, "For the drafter windows: tokens of each draft.", most=1000
    )
    draft_count: int | None = _of_drafts(
        None, "For the drafter windows: drafts for each query.", most=1000
    )
    node_budget: int | None = _of_drafts(
        None,
        "For drafters of trees: draft tokens of a query in each decoder pass.",
        more="By default the drafter tree weighs the cost of each token.",
        most=10_000,
    )
    length_penalty: float = _of_beams(
        0.0,
        "Rank hypotheses by log_prob / length ** length_penalty.",
        more="Merged answers need 0: they rank by their probability.",
    )
    finished: Literal["beam", "separate"] = _of_beams(
        "beam",
        "Whether finished hypotheses stay in the beam (beam) or leave it (separate).",
        more='"separate" is the search of Hugging Face\'s `generate`. It costs more nodes and '
        "gives likelier answers at the lower ranks. It ends when no unfinished hypothesis ranks "
        "before the last finished one; without a length penalty no better answer can then come.",
    )
    batch_size: int = setting(
        32,
        "Most queries decoded together.",
        more="On a CPU fewer share a pass if each has several hypotheses, as is fastest. On a GPU "
        "`molspec predict` takes as many of a file as have 1,024 hypotheses, unless it is given.",
        group=ANSWERS,
        most=65536,
    )
    min_length: int = _of_answers(
        1,
        "Minimum tokens of an answer, with EOS.",
        more="Hypotheses do not end before. On a device such searches run on the host.",
        most=1_000_000,
    )
    max_length: int | None = _of_answers(
        None,
        "Maximum tokens of an answer, with EOS; by default 200 or the model's limit.",
        most=1_000_000,
    )
    target_prefix: str | None = _of_answers(
        None,
        "Text that every answer begins with; for retro a molecule that is one of the reactants.",
        more="`log_prob` counts it, and `log_prob_after_prefix` is the part of the rest. For "
        "`retro` the prefix is the molecule and a dot, so an answer has another molecule too. "
        "Query and molecule are then written from atoms that look alike: of all spellings of both "
        "(one of the query if it is decoded as given) the pair with the longest common beginning, "
        "or as many as `augmentations` says. A drafter reads the prefix in the first pass. On a "
        "device such searches run on the host.",
    )
    token_log_probs: bool = _of_answers(
        False,
        "Give the log-probability of every token of an answer.",
        more="Also of EOS, which is the last if the answer is finished. Merged answers have those "
        "of their likeliest spelling. On a device such searches run on the host.",
    )
    merge_duplicates: bool = _of_answers(
        False, "Merge answers that are the same molecule and add their probabilities."
    )
    canonical_queries: bool | None = _of_answers(
        None,
        "Whether to make queries canonical first; by default as the model was trained.",
        more="Canonical queries are RDKit's canonical SMILES without atom maps. The bundled models "
        "and those of `molspec train` were trained on them.",
        flags=("--canonical-queries/--queries-as-given",),
    )
    augmentations: int = _of_answers(
        1,
        "Number of spellings of each query; their answers are merged.",
        more="The spellings are the canonical one and others that begin at other atoms. Use them "
        "with models that were trained on such (root-aligned SMILES, as the bundled ones were). "
        "Answers that are one molecule are merged, with the mean of their probabilities (Zhong et "
        "al. 2022, test-time augmentation).",
        most=1000,
    )
    augment_below: float | None = _of_answers(
        None,
        "Decode the next spelling only while the first answer's probability is below this.",
        more="The canonical spelling comes first, and `augmentations` is the maximum. The "
        "probability is that of the merged list so far. Queries whose first answer is probable "
        "cost one spelling.",
        above=0,
        most=1,
    )
    drop_invalid: bool = _of_answers(False, "Drop answers that are unfinished or not a molecule.")
    drop_unchanged: bool | None = _of_answers(
        False,
        "Drop predictions that leave the molecules unchanged.",
        more="For `retro`, an answer is unchanged if the query is among its molecules; for "
        "`product`, if it is among the query's molecules. None drops them for models of reactants: "
        "a product that does not react is an answer.",
    )
    drop_impossible: bool = _of_answers(
        False,
        "Drop answers whose product has an element that no reactant has.",
        more="Files and `Result.doubt` mark such answers. Some data leave out a reactant, such as "
        "the oxidant that gives an oxygen.",
    )
    max_beam_factor: int = _of_answers(
        4,
        "Maximum factor by which the beam widens if answers were dropped.",
        more="The query is decoded again with a beam twice as wide each time; 1 decodes it once.",
        most=1000,
    )
    samples: int | None = _of_samples(
        None,
        "Draw this many random answers instead of the best ones.",
        more="They come in the order drawn. The seed fixes the samples of a query, whatever the "
        "drafts, batch, order or threads. With merge_duplicates, equal samples become one with "
        "their `count`, the most frequent first.",
        most=1000,
    )
    temperature: float = _of_samples(
        1.0,
        "Divides log-probabilities: below 1, likely tokens become likelier.",
        more="From 0.001 to 1000. Predictions have the model's own log_prob, at temperature 1.",
        least=0.001,
        most=1000,
    )
    top_k: int | None = _of_samples(None, "Draw among the top_k likeliest tokens.", most=1_000_000)
    top_p: float | None = _of_samples(
        None,
        "Draw among the fewest tokens whose probabilities reach this sum.",
        more="After top_k if both are given.",
        above=0,
        most=1,
    )
    seed: int = _of_samples(
        0, "Seed of the samples: a whole number from 0, below 2**64.", least=0, most=2**64 - 1
    )
    verification: Verification = _of_drafts(
        "strict",
        "Which draft tokens are accepted: strict, relaxed (greedy) or rejection (samples).",
        more='"strict" accepts the model\'s own tokens, so drafts change no answer. "relaxed" also '
        "accepts nearly as probable ones in greedy decoding (Xia et al. 2023). Answers then depend "
        "on the drafter, and `tolerated` counts such tokens of an answer. "
        '"rejection" draws samples as Leviathan et al. (2023) do. They have the same distribution, '
        "but depend on the drafter.",
    )
    beta: int = _relaxed(3, "A relaxed draft token is among the beta likeliest.", most=1000)
    tau: float = _relaxed(1.0, "A relaxed draft token is at most tau nats below the likeliest.")
    judge: Literal["model", "drafter"] = _relaxed(
        "model",
        "Whose probability decides about a relaxed draft token: model or drafter.",
        more='"drafter" is for comparison: nearly all answers are then wrong.',
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.beam_size is not None and self.beam_size < self.n_best:
            raise wrong("beam_size", self.beam_size, f"at least n_best {self.n_best}")
        if self.length_penalty and (self.merge_duplicates or self.augmentations > 1):
            raise wrong("length_penalty", self.length_penalty, "0 where answers are merged")
        if self.augment_below is not None and self.augmentations == 1:
            raise wrong("augment_below", self.augment_below, "augmentations above 1 with it")
        if self.samples is None:
            self._check_unused(SAMPLES, "samples")
        if self.verification != "relaxed":
            self._check_unused(RELAXED, "verification='relaxed'")
        if self.judge == "drafter" and isinstance(self.configuration, WindowDrafts | NoDraft):
            known = f"a drafter that knows probabilities, not {self.drafter!r}"
            raise wrong("judge", self.judge, known)
        self._check_search(self.search)
        if self.is_greedy and self.drops and self.max_beam_factor > 1:
            try:
                self._check_search("exact")
            except ValueError as error:
                raise ValueError(
                    f"{error}; the beam widens where answers are dropped, unless max_beam_factor "
                    "is 1"
                ) from error

    @property
    def drops(self) -> bool:
        """Whether answers may be left out."""
        return self.drop_invalid or self.drop_unchanged is not False or self.drop_impossible

    def searched(self, factor: int = 1) -> PredictOptions:
        """Answers requested from the search: its whole beam if some may be dropped.

        factor: multiplies the beam's width.
        """
        if not self.drops:
            return self
        width = min(factor * self.width, WIDEST_BEAM)
        return changed(self, n_best=width, beam_size=None, max_beam_factor=1)

    def widens(self, factor: int) -> bool:
        """Whether dropped answers make a beam of this factor twice as wide."""
        before, after = (self.searched(each).width for each in (factor, 2 * factor))
        return 2 * factor <= self.max_beam_factor and before < after

    def distinct(self) -> PredictOptions:
        """These options, for a list of n_best different molecules if the beam finds so many.

        Of models of reactants without those that have the query among them. They do not change for
        one greedy answer, for samples, and for beams with a length penalty.
        """
        if self.is_greedy or self.samples is not None or self.length_penalty:
            return self
        unchanged = self.drop_unchanged or None
        return changed(self, merge_duplicates=True, drop_invalid=True, drop_unchanged=unchanged)

    def within(self, widest: int) -> PredictOptions:
        """These options, for beams that do not widen beyond so many hypotheses."""
        factor = min(self.max_beam_factor, max(1, widest // self.width))
        return self if factor == self.max_beam_factor else changed(self, max_beam_factor=factor)

    def _check_unused(self, group: str, needed: str) -> None:
        for other in differing(self, group):
            raise wrong(other.name, getattr(self, other.name), f"{needed} with it")

    def _check_search(self, search: Search) -> None:
        takes = _SEARCHES[search]
        for name in takes.refused:
            value, default = getattr(self, name), getattr(PredictOptions, name)
            if value != default:
                alone = f"{default!r}, it cannot be combined with {takes.called}"
                raise wrong(name, value, alone)
        if self.verification not in ("strict", takes.verification):
            fit = next(of for of in _SEARCHES.values() if of.verification == self.verification)
            raise wrong("verification", self.verification, fit.called)
        if self.drafter is None and not self._counts:
            return
        if not takes.drafter("tree" if self.drafter is None else self.drafter, self.configuration):
            named = [repr(name) for name in DRAFTERS if takes.drafter(name, resolve(name))]
            others = ", a LookAhead" * takes.ahead + " or a Drafter" * (object not in takes.unfit)
            kinds = f"{', '.join(named)}{others}"
            raise ValueError(f"drafter is {quoted(self.drafter)}: {takes.called} takes {kinds}")

    @property
    def width(self) -> int:
        """Number of hypotheses in the beam."""
        return self.n_best if self.beam_size is None else self.beam_size

    @property
    def answer_count(self) -> int:
        """Answers of a query."""
        return self.n_best if self.samples is None else self.samples

    @property
    def is_greedy(self) -> bool:
        """Whether it is greedy decoding: one hypothesis, and no beam requested."""
        return self.width == 1 and self.beam is None and self.samples is None

    @property
    def search(self) -> Search:
        """The search."""
        if self.samples is not None:
            return "sampling"
        return "greedy" if self.is_greedy else self.beam or "exact"

    @property
    def drafts_decide(self) -> bool:
        """Whether answers depend on the drafts."""
        return self.verification != "strict" or self.search == "sbs"

    @property
    def _counts(self) -> dict[str, int]:
        """The given options of the drafter."""
        return {name: n for name in DRAFT_COUNTS if (n := getattr(self, name)) is not None}

    @property
    def configuration(self) -> AnyConfiguration:
        """The requested drafter, otherwise the search's own."""
        own = _SEARCHES[self.search].default
        return resolve(own if self.drafter is None else self.drafter, **self._counts)

    def length_limit(self, max_positions: int) -> int:
        """max_length for a model whose position table has max_positions rows.

        Raises ValueError if the options need more rows than the model has.
        """
        if self.max_length is None:
            return min(DEFAULT_MAX_LENGTH, max_positions)
        if self.max_length > max_positions:
            raise wrong("max_length", self.max_length, f"at most {max_positions}, the model's own")
        return self.max_length


def changed(options: PredictOptions, **values: Any) -> PredictOptions:
    """Options with other values, which are not checked: they must fit wherever the old ones do."""
    made = object.__new__(type(options))
    vars(made).update(vars(options), **values)
    return made


PredictOptions.__doc__ = f"{PredictOptions.__doc__}\n\n{described(PredictOptions)}\n"
#: The maximum of a number.
LARGEST: dict[str, int] = {
    option.name: option.metadata["most"]
    for option in fields(PredictOptions)
    if isinstance(option.metadata["most"], int)
}
OPTION_NAMES = tuple(field.name for field in fields(PredictOptions))


def check_names(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError, as Python does, for an unknown option, naming the known ones."""
    for name in given:
        if name not in known:
            close = get_close_matches(OURS.get(name, name), known, n=1)
            meant = f": did you mean {close[0]}?" if close else ":"
            raise TypeError(
                f"{function} has no option {quoted(name)}{meant} expected {', '.join(known)}"
            )
