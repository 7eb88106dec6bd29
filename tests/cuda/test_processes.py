"""Processes that share a device: this one leaves CUDA to them, and they give its answers."""

import os

import pytest
import torch

from molspec import Model, PredictOptions
from molspec.engine import devices
from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.engine import CudaEngine
from molspec.prediction import streams
from tests import refused, tiny
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import Recorder, stand_in_cuda

#: The functions of torch's library through which a process begins to use CUDA.
ENTRIES = (
    *("_cuda_init", "_cuda_getDeviceCount", "_cuda_getDevice", "_cuda_setDevice"),
    *("_cuda_maybeExchangeDevice", "_cuda_getCurrentStream", "_cuda_memoryStats"),
)
QUERIES, OPTIONS = tiny.QUERIES[:4], PredictOptions(max_length=4)


class Cuda:
    """CUDA that works in every process but those forked from one that has used it; emulated."""

    def __init__(self, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
        self.user, self.is_initialized = 0, False
        stand_in_cuda(
            monkeypatch,
            is_available=self.touch,
            is_initialized=lambda: self.is_initialized,
            get_device_capability=self.initialize,
        )

        for entry in ENTRIES:
            monkeypatch.setattr(torch._C, entry, self.initialize, raising=False)

        def make(engine: CudaEngine, query_count: int) -> Caches:
            self.initialize()
            return Caches(engine.packed, query_count, emulator.ops, Recorder())

        monkeypatch.setattr(CudaEngine, "_make", make)

    def touch(self) -> bool:
        """Whether this process can use CUDA, which it has done then."""
        self.user = self.user or os.getpid()
        return self.user == os.getpid()

    def initialize(self, *_: object) -> tuple[int, int]:
        if not self.touch():
            raise RuntimeError("cannot initialize CUDA in a forked process")
        self.is_initialized = True
        return 9, 0


def test_processes_share_a_device_that_this_one_has_not_used(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Cuda(cuda, monkeypatch)
    model = Model(tiny.with_heads(), "float32", devices.choose_device("auto", "float32"))
    assert model.device == "cuda"
    found = list(model.predict_stream(QUERIES, OPTIONS, processes=2))
    assert not machine.user
    assert found == list(model.predict_stream(QUERIES, OPTIONS))
    assert any(result.predictions for result in found)
    call = model.predict_stream
    refused("processes is 2: expected 1 on cuda", call, QUERIES, OPTIONS, processes=2)


def test_processes_have_full_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    aheads: list[int] = []
    monkeypatch.setattr(streams, "in_processes", lambda *_, ahead: aheads.append(ahead) or [])
    for batch_size in (700, 16):
        options = PredictOptions(batch_size=batch_size)
        assert not [*tiny.model().predict_stream(iter(QUERIES), options, processes=2)]
    assert aheads == [2800, 1024]


def test_device_that_was_asked_for_is_not_shared(
    cuda: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cuda(cuda, monkeypatch).touch()
    model = Model(tiny.checkpoint(), "float32", "cuda")
    pairs = [(query, query) for query in QUERIES]
    call = model.log_probs_stream
    refused("processes is 'all': expected 1 on cuda", call, pairs, processes="all")
    assert len(list(call(pairs))) == len(pairs)
