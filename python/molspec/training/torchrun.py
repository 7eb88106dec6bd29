"""The processes of a training: one, or those that PyTorch's launcher, torchrun, has started.

Every process computes its share of each batch; after averaging the gradients all take the same
step. Only process 0, the lead, has the clock, validates, and reads and writes the folder.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import sleep
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous
from torch.nn.utils import parameters_to_vector, vector_to_parameters

#: Maximum wait of the others for the lead, which may decode for a long time. If the lead ends, its
#: connections close and the wait ends too.
_PATIENCE = timedelta(days=1)
#: Seconds before a process reports lost others. If one has failed, torchrun ends all before that,
#: so that only its error is printed.
_GRACE = 60.0

T = TypeVar("T")

_joins = itertools.count()


class LostProcessError(RuntimeError):
    """The other processes are unreachable; if one has ended, its own error has the reason."""


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the processes that torchrun has started; a single process is alone."""
    if not (dist.is_available() and dist.is_torchelastic_launched()) or _number("WORLD_SIZE") == 1:
        yield Ranks()
    elif dist.is_initialized():  # by the caller
        yield _here()
    else:
        store, rank, count = next(rendezvous("env://"))
        # The store still has the addresses of earlier attempts and trainings.
        place = f"{_number('TORCHELASTIC_RESTART_COUNT')}/{next(_joins)}"
        store = dist.PrefixStore(place, store)  # type: ignore[attr-defined]  # documented
        backends = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backends, store=store, rank=rank, world_size=count)
        yield _here()
        dist.destroy_process_group()  # not after an error: it would wait for the others


def _here() -> Ranks:
    decisions = dist.new_group(backend="gloo", timeout=_PATIENCE)
    local = _number("LOCAL_RANK"), _number("LOCAL_WORLD_SIZE")
    return Ranks(dist.get_rank(), dist.get_world_size(), *local, decisions)


def _number(variable: str) -> int:
    return int(os.environ[variable])


@dataclass(frozen=True)
class Ranks:
    """The processes of a training, from the view of one of them; by default a single one."""

    rank: int = 0
    count: int = 1
    #: Rank and count among the processes of this machine.
    local_rank: int = 0
    local_count: int = 1
    #: The group of the host's messages; gradients use the default group, on a GPU's own stream.
    decisions: dist.ProcessGroup | None = None

    @property
    def is_lead(self) -> bool:
        """Whether this is process 0."""
        return self.rank == 0

    @property
    def share(self) -> slice:
        """This process's share of a batch's pairs; all shares have similar lengths."""
        return slice(self.rank, None, self.count)

    def device(self, name: str | None) -> torch.device:
        """Choose this process's device, a GPU of its own where there are GPUs.

        Raises ValueError if `name` is not an available device, or is one for several processes.
        """
        usable = torch.cuda.is_available()
        name = name or ("cuda" if usable else "cpu")
        kind, colon, number = name.partition(":")
        is_number = not colon or number.isdecimal()
        if kind not in ("cpu", "cuda") or not is_number or (kind == "cuda" and not usable):
            able = "cpu or cuda" if usable else "cpu, there is no usable GPU"
            raise ValueError(f"device is {name!r}: expected {able}")
        if kind == "cuda" and number and int(number) >= (count := torch.cuda.device_count()):
            raise ValueError(f"device is {name!r}: expected cuda:0 to cuda:{count - 1}")
        if self.count == 1 or kind == "cpu":
            return torch.device(name)
        if number:
            raise ValueError(f"device is {name!r}: expected cuda, each process takes its own GPU")
        if self.local_count > torch.cuda.device_count():
            raise ValueError(
                f"device is 'cuda': {self.local_count} processes are on a machine with "
                f"{torch.cuda.device_count()} GPUs, expected at most one process a GPU"
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    @contextmanager
    def lead_first(self) -> Iterator[None]:
        """Run the body in the lead before the others, so that an error appears once."""
        if not self.is_lead:
            self.from_lead(lambda: None)
        yield
        if self.is_lead:
            self.from_lead(lambda: None)

    def from_lead(self, compute: Callable[[], T]) -> T:
        """Compute a value in the lead and send it to every process."""
        found = [compute() if self.is_lead else None]
        if self.count > 1:
            with self._among_others():
                dist.broadcast_object_list(found, src=0, group=self.decisions)
        return cast(T, found[0])

    def check_same(self, **values: Any) -> None:
        """Raise ValueError, naming it, if a value differs from the lead's."""
        for name, expected in self.from_lead(lambda: values).items():
            if values[name] != expected:
                raise ValueError(
                    f"{name} of process {self.rank} is not that of process 0: "
                    "give every process the same"
                )

    def average(self, parameters: Sequence[Tensor], loss: Tensor, weight: Tensor) -> Tensor:
        """Replace every gradient by its weighted mean over the processes; return the mean loss.

        `loss` and `weight` are this process's, of shape []. A missing gradient counts as zeros.
        """
        if self.count == 1:
            return loss
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [cast(Tensor, parameter.grad) for parameter in parameters]
        sums = parameters_to_vector([*gradients, torch.stack([loss, torch.ones_like(loss)])])
        sums *= weight
        with self._among_others():
            dist.all_reduce(sums)
        means = sums / sums[-1]
        vector_to_parameters(means, gradients)
        return means[-2].clone()  # a view would hold the memory of all gradients

    def draw_apart(self, seed: int, step_count: int) -> None:
        """Seed each process differently; the seeds depend on the arguments alone."""
        if self.count > 1:
            drawn = np.random.SeedSequence((seed, step_count, self.rank)).generate_state(1)
            torch.manual_seed(int(drawn[0]))

    @contextmanager
    def _among_others(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            sleep(_GRACE)
            raise LostProcessError(f"process {self.rank} lost the others: {error}") from error
