"""How commands load a model."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from molspec.console.progress import stages
from molspec.console.usage import print_err

if TYPE_CHECKING:
    from molspec.commands.flags import ModelFlags
    from molspec.predictor import Model


def load_model(flags: ModelFlags) -> Model:
    """Load the requested model. Raises ValueError if there is none or it is broken."""
    with _no_garbage(), stages(("loading PyTorch", f"loading {flags.model_name}")) as done:
        from molspec.ops import set_num_threads
        from molspec.predictor import load

        done()
        set_num_threads(flags.threads)
        loaded = load(flags.model_name, flags.device, flags.dtype)
        done()
        return loaded


def process_count(text: str) -> int:
    """The number of processes of --processes, with a warning if there are fewer cores.

    Raises ValueError for an invalid value.
    """
    from molspec import processes

    given: Any = int(text) if text.isdecimal() else text
    count, cores = processes.process_count(given), processes.usable_cores()
    if count > cores:
        print_err(
            f"--processes {count} is more than the number of usable cores, {cores}: "
            "that is slower, not faster"
        )
    return count


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Exclude imported objects from garbage collection, a fifth of the time to the first answer."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
