"""A process of one build of molspec: reads requests as JSON lines, writes replies as JSON lines.

    PYTHON bench/campaigns/build_worker.py

A request names a model's folder, a dtype, n_best and a batch of queries; the reply has the answers
with their log-probs, and their seconds of processor time. The script uses only `molspec.load` and
`Model.predict`, so that builds of any age can be compared. An empty request begins a new round.
"""

import json
import os
import sys
from functools import cache
from time import process_time
from typing import Any

#: For replies only: other output, such as that of an editable build's rebuild, goes to stderr.
REPLIES = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
#: Imports come from the build's environment, not from this script's folder.
sys.path.pop(0)

import torch

import molspec


@cache
def load(model: str, dtype: str) -> molspec.Model:
    return molspec.load(model, dtype=dtype)


def clear_caches() -> dict[str, Any]:
    """Clear the caches that hold the last round's molecules: a user's queries do not repeat."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "molspec":
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    return {}


def answer(model: str, dtype: str, n_best: int, queries: list[str]) -> dict[str, Any]:
    """Answer a batch; processor time leaves out what other processes do."""
    loaded = load(model, dtype)
    begin = process_time()
    results = list(loaded.predict(queries, n_best=n_best, batch_size=len(queries)))
    seconds = process_time() - begin
    answers = [[(p.smiles, p.log_prob) for p in result.predictions] for result in results]
    return {"seconds": seconds, "answers": answers}


def main() -> None:
    torch.set_num_threads(1)
    molspec.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        reply = answer(**request) if request else clear_caches()
        print(json.dumps(reply), file=REPLIES, flush=True)


if __name__ == "__main__":
    main()
