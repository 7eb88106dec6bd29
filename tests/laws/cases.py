"""The cases of the laws: models, searches, drafters. A new option, engine or drafter is a row."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from molspec import Model, decode
from molspec.checkpoints import write
from molspec.decoding.statistics import Statistics
from molspec.drafting import HeadsDraft, LookAhead, ModelDraft, SpecDraft, TreeDraft, WindowDrafts
from molspec.model.spec import HeadsSpec
from tests import tiny
from tests.drafting.drafters import Recorded
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer

Options = dict[str, Any]
QUERIES = tiny.QUERIES[:-1]
MAX_LENGTH = 14


def module(seed: int) -> PlainTransformer:
    return PlainTransformer(tiny.VOCABULARY.size, seed=seed).double().eval()


class Module:
    """A user's module. PyTorch rounds by the shape of a batch, so only tokens are compared."""

    queries = QUERIES[1:5]

    def __init__(self) -> None:
        self._module = module(14)

    def answers(self, queries: Sequence[str], **options: Any) -> tuple[list[Any], Statistics]:
        if prefix := options.get("target_prefix"):
            options["target_prefix"] = tiny.VOCABULARY.encode(prefix)
        ids = [[BOS, *tiny.VOCABULARY.encode(query), EOS] for query in queries]
        found = decode(self._module, ids, bos_id=BOS, eos_id=EOS, pad_id=PAD, **options)
        lengths = found.lengths.tolist()
        rows = zip(found.sequences.tolist(), lengths, strict=True)
        cut = [[each[:length] for each, length in zip(*row, strict=True)] for row in rows]
        return cut, found.statistics


class Own:
    """A model of molspec, whose results are compared to the bit."""

    queries = QUERIES

    def __init__(self, dtype: str = "float32", others: Sequence[Any] = (), **changes: Any) -> None:
        spec_drafter = tiny.with_spec_drafter(2).spec_drafter
        whole = replace(tiny.with_heads(), spec_drafter=spec_drafter, ngram=tiny.ngram())
        if changes:  # of the spec
            whole = replace(tiny.checkpoint(**changes), ngram=tiny.ngram())
        self.model = Model(whole, dtype, others=others)

    def answers(self, queries: Sequence[str], **options: Any) -> tuple[list[Any], Statistics]:
        found = self.model.predict(queries, **options)
        return list(found), found.statistics


#: As in T5.
RELATIVE: Options = {
    "norm": "pre",
    "norm_kind": "rms",
    "positions": "relative",
    "scale_attention": False,
    "gated": True,
}
MODELS: dict[str, Callable[[], Own | Module]] = {
    "float32": Own,
    "bfloat16": lambda: Own("bfloat16"),
    "int8": lambda: Own("int8"),
    "ensemble": lambda: Own(others=tiny.others()),
    "relative": lambda: Own("int8", **RELATIVE),
    "rotary": lambda: Own("bfloat16", positions="none", rotary_columns=8),
    "module": Module,
}

#: Searches whose answers no draft changes.
SEARCHES: dict[str, Options] = {
    "greedy": {},
    "longer": {"min_length": 9},
    "prefix": {"target_prefix": "CC(N"},
    "tokens": {"token_log_probs": True},
    "samples": {"samples": 5, "temperature": 0.9, "seed": 7},
    "samples of few tokens": {"samples": 2, "top_k": 5, "top_p": 0.9, "seed": 3},
    "beam of 3": {"n_best": 3},
    "beam of 10": {"n_best": 10},
    "separate": {"n_best": 3, "finished": "separate"},
    "penalty": {"n_best": 3, "length_penalty": 0.7},
}

#: Searches that only batches may not change: drafts decide answers, or queries are decoded again.
DECIDED: dict[str, Options] = {
    "default drafts": {},
    "standard beam": {"n_best": 4, "beam": "standard"},
    "SBS": {"n_best": 2, "beam_size": 4, "beam": "sbs", "drafter": WindowDrafts(4, 5, smart=True)},
    "relaxed": {"verification": "relaxed", "beta": 5, "tau": 3.0},
    "rejection": {"samples": 5, "verification": "rejection", "seed": 3},
    "rejection of a model": {"samples": 5, "verification": "rejection", "drafter": "small"},
    "rejection of models": {"samples": 5, "verification": "rejection", "drafter": "hierarchy"},
    "spellings": {"n_best": 3, "augmentations": 3, "canonical_queries": True},
    "more spellings": (
        {"n_best": 3, "augmentations": 4, "augment_below": 0.1, "canonical_queries": True}
    ),
    "dropping": (
        {"n_best": 2, "augmentations": 2, "canonical_queries": True}
        | {"drop_invalid": True, "drop_unchanged": True, "merge_duplicates": True}
    ),
}

#: The searches of other models than float32: a dtype and an engine are below a search.
FEW = ("greedy", "samples", "beam of 3", "SBS", "rejection of a model", "more spellings")


def drafters(folder: Path) -> dict[str, Callable[[], Any]]:
    """Drafters by name; those of models read `folder`, which `write_models` fills."""
    same, small = str(folder / "same"), str(folder / "small")
    blockwise = HeadsSpec("blockwise", 3, 16)
    return {
        "tree": lambda: "tree",
        "one node": lambda: TreeDraft(node_budget=1),
        "windows": lambda: WindowDrafts(draft_length=10, draft_count=10),
        "first windows": lambda: WindowDrafts(3, 4, choice="first", dilution=True),
        "smart windows": lambda: WindowDrafts(5, 4, smart=True),
        "heads": lambda: "heads",
        "few nodes of heads": lambda: HeadsDraft(node_budget=2, min_probability=0.1),
        "other heads": lambda: Model(tiny.with_heads(blockwise)).context.build(HeadsDraft()),
        "spec": lambda: "spec",
        "few nodes of spec": lambda: SpecDraft(node_budget=3, k=2),
        "same": lambda: ModelDraft(same, gamma=4),
        "small": lambda: ModelDraft(small, gamma=3),
        "adaptive": lambda: ModelDraft(same),
        "model and tree": lambda: ModelDraft(same, gamma=4, drafter="tree"),
        "hierarchy": lambda: ModelDraft(same, gamma=6, drafter=ModelDraft(small, gamma=2)),
        "module": lambda: ModelDraft(module(14), gamma=3),
        "modules": lambda: ModelDraft(module(14), drafter=ModelDraft(module(3), gamma=2)),
        "external": lambda: Recorded({}),
        "eager": lambda: LookAhead(40, steps=5, min_confidence=0.0),
        "eager heads": lambda: LookAhead(20, drafter=HeadsDraft()),
        "eager spec": lambda: LookAhead(20, drafter=SpecDraft()),
        "eager model": lambda: LookAhead(30, min_confidence=0.1, drafter=ModelDraft(same, gamma=6)),
    }


NAMES = tuple(drafters(Path()))


def write_models(folder: Path) -> None:
    for name, seed in (("same", 1), ("small", 2)):
        write(tiny.checkpoint(seed), folder / name)


def suits(drafter: str, search: str, model: str) -> bool:
    """Whether a search and a model are tried with a drafter, which they take."""
    if model != "float32" and search not in FEW:
        return False
    if model in ("relative", "rotary") and drafter not in ("tree", "windows", "eager"):
        return False
    modules = ("module", "modules")
    if model == "module" and drafter not in ("tree", "windows", "external", "eager", *modules):
        return False
    if model != "module" and drafter in modules:
        return False
    if "n_best" in SEARCHES[search]:
        return "windows" not in drafter and drafter != "one node"
    return "eager" not in drafter
