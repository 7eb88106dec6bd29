"""How to decode, chosen once: which search with which drafter; bad combinations end here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from molspec import _native, drafting
from molspec.drafting import Drafting, NoDraft, TreeDraft, WindowDrafts, check_count, check_number

BeamKind = Literal["exact", "standard", "sbs"]
FinishedPlace = Literal["beam", "apart"]

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
}
#: Of SBS: a draft token is accepted while the likelier ones have less probability than this
#: together (Andronov et al. 2025).
_NUCLEUS = 0.9975
#: On a CPU the nodes of a wider beam fill the matrix kernels' tiles as they are: what drafting
#: saves is less than what it costs (docs/beams.md).
_WIDEST_DRAFTED = 5
#: On a device drafting saves two thirds of the passes and costs a tenth more rows, which are nearly
#: free while they are few, and the time of looking ahead, which doubles beyond seven hypotheses,
#: one for each warp that guesses: counted, not yet measured (docs/performance.md).
_WIDEST_DRAFTED_ON_DEVICE = 7
_MOST_HYPOTHESES_DRAFTED = 1024
#: Where passes are dear and rows are not: with the last token sixteen nodes, a whole tile of rows.
_DEVICE_TREE = TreeDraft(node_budget=15)


@dataclass(frozen=True)
class PredictOptions:
    """How to decode.

    n_best: answers a query.
    beam_size: hypotheses kept; n_best where not given. Greedy decoding where both are 1.
    beam: "exact" gives standard beam search's own list in fewer passes, "standard" is one pass a
        token, "sbs" the speculative beam search of Andronov et al.: approximate.
    drafter: "none", "windows" or "tree", or a configuration of `molspec.drafting`; where not
        given the search's own: "tree", of sbs "windows", and "none" for exact beams where drafting
        is taken to cost more than it saves: on the CPU's engine for those wider than 5, on a device
        for those wider than 7 or more than 1,024 hypotheses of a batch. draft_length and
        draft_count belong to "windows", node_budget (nodes a query and pass) to "tree", which
        chooses nodes by what they cost where it is not given.
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

    Raises ValueError, naming the option, where a value or a combination makes no sense.
    """

    n_best: int = 1
    beam_size: int | None = None
    beam: BeamKind | None = None
    drafter: str | Drafting | None = None
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

    def __post_init__(self) -> None:
        for name, most in LARGEST.items():
            value = getattr(self, name)
            if value is not None or name not in ("beam_size", "max_length"):
                object.__setattr__(self, name, check_count(name, value, most))
        for name, known in (
            ("beam", (None, *get_args(BeamKind))),
            ("finished", get_args(FinishedPlace)),
        ):
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
        if not isinstance(self.merge_duplicates, bool):
            raise ValueError(
                f"merge_duplicates is {self.merge_duplicates!r}: expected True or False"
            )
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
        self._check_drafting()

    @property
    def width(self) -> int:
        """Hypotheses kept."""
        return self.n_best if self.beam_size is None else self.beam_size

    @property
    def is_greedy(self) -> bool:
        """One hypothesis and no beam asked for."""
        return self.width == 1 and self.beam is None

    @property
    def drafting(self) -> Drafting:
        """The drafter, resolved."""
        default = {"sbs": "windows", "standard": "none"}.get(self.beam or "", "tree")
        resolved = drafting.resolve(
            default if self.drafter is None else self.drafter,
            draft_length=self.draft_length,
            draft_count=self.draft_count,
            node_budget=self.node_budget,
        )
        if resolved is self.drafter or not isinstance(resolved, TreeDraft) or self.is_greedy:
            return resolved
        return lookahead(self.width, self.node_budget)

    def _check_drafting(self) -> None:
        resolved = self.drafting
        if self.is_greedy:
            return
        kind = self.beam or "exact"
        kinds: dict[str, dict[str, type[Drafting]]] = {
            "exact": {"tree": TreeDraft, "none": NoDraft},
            "standard": {"none": NoDraft},
            "sbs": {"windows": WindowDrafts, "none": NoDraft},
        }
        allowed = kinds[kind]
        if not isinstance(resolved, tuple(allowed.values())):
            raise ValueError(
                f"drafter is {self.drafter!r}: beam {kind!r} takes "
                f"{' or '.join(map(repr, allowed))}"
            )

    def on(self, device: str) -> PredictOptions:
        """These options for molspec's own engine on a device: what is left to it is chosen."""
        if self.node_budget is not None or self.drafter not in (None, "tree"):
            return self
        if self.is_greedy:
            tree = paying_tree(self.batch_size) if device == "cpu" else _DEVICE_TREE
            return replace(self, drafter=tree)
        if self.drafter is None and self.beam != "sbs" and not self._drafts_pay(device):
            return replace(self, drafter="none")
        return self

    def _drafts_pay(self, device: str) -> bool:
        if device == "cpu":
            return self.width <= _WIDEST_DRAFTED
        few = self.width * self.batch_size <= _MOST_HYPOTHESES_DRAFTED
        return few and self.width <= _WIDEST_DRAFTED_ON_DEVICE

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

    def search(self, guess: _native.GuessModel, max_length: int) -> Search:
        """A search for batches of batch_size queries."""
        if self.is_greedy:
            drafters = drafting.factory(self.drafting, guess)
            return _native.GreedySearch(drafters, self.batch_size, max_length)
        if self.beam == "sbs":
            return self._speculative_beam(guess, max_length)
        tree = self.drafting if isinstance(self.drafting, TreeDraft) else None
        options = _native.BeamOptions(
            beam_size=self.width,
            n_best=self.n_best,
            max_length=max_length,
            length_penalty=self.length_penalty,
            finished_apart=self.finished == "apart",
            lookahead_steps=tree.max_depth if tree else 0,
            node_budget=tree.node_budget if tree else 0,
            min_confidence=tree.min_probability if tree else 1.0,
        )
        return _native.BeamSearch(options, guess, self.batch_size)

    def _speculative_beam(
        self, guess: _native.GuessModel, max_length: int
    ) -> _native.SpeculativeBeamSearch:
        options = _native.SpeculativeBeamOptions(
            beam_size=self.width,
            n_best=self.n_best,
            max_length=max_length,
            length_penalty=self.length_penalty,
            nucleus=_NUCLEUS,
        )
        windows = self.drafting.native() if isinstance(self.drafting, WindowDrafts) else None
        return _native.SpeculativeBeamSearch(options, windows, guess, self.batch_size)


def paying_tree(batch_size: int) -> TreeDraft:
    """How greedy decoding drafts on the CPU: a node must pay for itself.

    In rows of a wide pass, an accepted node saves the row that would have come instead, about one
    more for the query's part in a pass, and its share of the three that a pass costs whatever its
    rows; so it must be likely enough (docs/performance.md). A query alone in its passes keeps to
    one tile of the matrix kernels, in which rows are nearly free.
    """
    if batch_size == 1:
        return TreeDraft(node_budget=5, min_probability=0.3)
    return TreeDraft(node_budget=16, min_probability=1 / (2 + 3 / batch_size))


def lookahead(beam_size: int, node_budget: int | None = None) -> TreeDraft:
    """How exact beam search drafts where nothing else is asked for.

    A wrong node costs a row of a pass, a right one saves a part of a pass, which is worth more
    where passes are narrow. docs/beams.md has the figures.
    """
    return TreeDraft(node_budget or 5 * beam_size, max_depth=12, min_probability=0.4)


Search = _native.GreedySearch | _native.BeamSearch | _native.SpeculativeBeamSearch
