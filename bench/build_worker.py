"""A process of one build of molspec: reads requests as JSON lines, writes replies as JSON lines.

    PYTHON bench/build_worker.py

A request names a model's folder, a dtype, n_best and a batch of queries; the reply has the answers
with their log-probs, and the seconds of processor time that they took. It asks for nothing but
`molspec.load` and `Model.predict`, so that builds of any age can be compared. An empty request is
a new round.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from time import process_time
from typing import Any

#: What anything prints, an editable build that is made anew too, must not come between replies.
REPLIES = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
#: The build's own molspec, not what lies beside this script.
sys.path.pop(0)

import torch

import molspec


@cache
def load(model: str, dtype: str) -> molspec.Model:
    return molspec.load(model, dtype=dtype)


def forget() -> dict[str, Any]:
    """Let the build forget the molecules of the round before: a user's queries are others."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "molspec":
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    return {}


def answer(model: str, dtype: str, n_best: int, queries: list[str]) -> dict[str, Any]:
    """Answer a batch; processor time does not count what else the machine does."""
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
        reply = answer(**request) if request else forget()
        print(json.dumps(reply), file=REPLIES, flush=True)


if __name__ == "__main__":
    main()
