"""propose: drafts after half a target, with and without the time to follow that half.

The drafters have no twin in PyTorch: they work on strings. The target here copies its source, and
there is no n-gram model of targets.
"""

import json
from collections.abc import Iterator
from functools import partial

from case import Case
from models import PREFIX_LENGTH
from molspec import drafting
from molspec._native import NativeDrafter
from molspec.checkpoints.bundled import locate
from molspec.text import Vocabulary

_SOURCE = "COC(=O)c1ccc(CN2CCN(c3ccccc3OC)CC2)cc1.[Li+].[OH-].C1CCOC1.CO.O"
_DRAFTERS: dict[str, drafting.Drafting] = {
    "windows 10x10": drafting.WindowDrafts(draft_length=10, draft_count=10),
    "windows 23x17": drafting.WindowDrafts(draft_length=17, draft_count=23),
    "tree 5": drafting.TreeDraft(node_budget=5),
    "tree 16": drafting.TreeDraft(node_budget=16),
    "tree 32": drafting.TreeDraft(node_budget=32),
}


def cases() -> Iterator[Case]:
    """For every drafter: start a query, follow a prefix and propose; and only propose."""
    values = json.loads((locate("product") / "vocabulary.json").read_text())
    vocabulary = Vocabulary(tuple(values.pop("tokens")), **values)
    guess = drafting.guess_model(vocabulary, None)
    source_ids = vocabulary.encode(_SOURCE)
    prefix_ids = source_ids[:PREFIX_LENGTH]
    for name, drafter in _DRAFTERS.items():
        native = NativeDrafter(drafting.native_options(drafter), guess)

        def query(native: NativeDrafter = native) -> None:
            native.start(source_ids)
            native.propose(prefix_ids)

        query()
        yield Case("propose", f"{name}: start, follow and propose", query)
        yield Case("propose", f"{name}: propose", partial(native.propose, prefix_ids))
