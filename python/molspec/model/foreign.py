"""Weights that are not a layer's own: of adapters, and of quantisation."""

import re
from collections.abc import Iterable

#: Patterns of their names, and what has them.
_FOREIGN = {
    r"\blora_|\bbase_layer\b|\bprompt_encoder\b": "an adapter: merge_and_unload() merges it",
    r"\bq(weight|zeros)$|absmax|quant_(state|map)|\bSCB$|weight_(scale|packed)": (
        "a quantised model: give the one before; --dtype int8 rounds it"
    ),
}


def check_own(names: Iterable[str]) -> None:
    """Raise ValueError, saying what has it, for a weight that is not a layer's own."""
    for name in names:
        for pattern, what in _FOREIGN.items():
            if re.search(pattern, name):
                raise ValueError(f"{name} is a weight of {what}")
