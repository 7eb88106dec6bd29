"""Objects that go to other processes as copies of their tensors."""

import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

KindT = TypeVar("KindT", bound=type)


def copied_between_processes(kind: KindT) -> KindT:
    """Let multiprocessing copy the tensors of objects of a class.

    torch would move their storages to shared memory, under a thread that decodes with them.
    """
    register: Callable[..., None] = ForkingPickler.register
    register(kind, _reduce)
    return kind


def _reduce(value: object) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
    return pickle.loads, (pickle.dumps(value, pickle.HIGHEST_PROTOCOL),)
