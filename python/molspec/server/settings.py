"""What a server is started with; a process makes its application of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fastapi import FastAPI

from molspec.ops import set_num_threads
from molspec.options import DEFAULT_BATCH_SIZE
from molspec.predictor import load
from molspec.server.app import make_app
from molspec.server.limits import Limits
from molspec.server.service import Service
from molspec.server.worker import Worker


@dataclass(frozen=True)
class Settings:
    """Plain values, for processes to be started with.

    models: what requests call them, and what each is: a bundled model or the path of a checkpoint.
    """

    models: Sequence[tuple[str, str]]
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    batch_size: int = DEFAULT_BATCH_SIZE
    limits: Limits = field(default_factory=Limits)
    keys: tuple[str, ...] = field(default=(), repr=False)
    #: Names of this server that requests may give; any where there is none.
    hosts: tuple[str, ...] = ()
    log_level: str = "warning"
    access_log: bool = False

    def app(self) -> FastAPI:
        """Load the models and start their threads. Raises ValueError where a model is broken."""
        set_num_threads(self.threads)
        loaded = {name: load(source, self.device, self.dtype) for name, source in self.models}
        workers = {
            name: Worker(name, model, self.batch_size, self.limits.waiting)
            for name, model in loaded.items()
        }
        return make_app(Service(workers, self.limits), self.keys, self.hosts)
