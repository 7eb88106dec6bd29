"""Chooses the engine of a model by its device and the type of its weights."""

import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from molspec.common.console import quoted
from molspec.common.workers import DIED, in_processes
from molspec.engine import ops
from molspec.engine.cpu.engine import NativeEngine
from molspec.engine.cuda.engine import CudaEngine
from molspec.engine.cuda.graphs import synchronize
from molspec.engine.ensemble import EnsembleEngine
from molspec.model.spec import ModelSpec

_CPU_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
_CUDA_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

#: The lowest one in cmake/cuda.cmake.
_LEAST_CAPABILITY = (8, 0)

Engine = NativeEngine | CudaEngine | EnsembleEngine


@contextmanager
def on_one_torch_thread() -> Iterator[None]:
    """Let torch use this thread alone for many short operations.

    Each would wait for the other threads, on a busy machine for longer than it takes. Nothing is
    changed beside other threads: what began to use torch meanwhile would keep to one thread.
    """
    count = torch.get_num_threads()
    if threading.active_count() > 1 or count == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


def by_name(value: str | torch.device | torch.dtype) -> str:
    """The name of a device or dtype, given by name or as torch's object."""
    if isinstance(value, torch.device) and value.type == "cpu":
        return "cpu"  # with any index: there is one
    return str(value).removeprefix("torch.")


def check_device(device: str, dtype: str) -> None:
    """Raise ValueError, naming the argument, if this machine cannot run them."""
    kind, colon, index = device.partition(":")
    is_number = index.isdecimal() and index == str(int(index))
    if kind not in ("cpu", "cuda") or (colon and not (kind == "cuda" and is_number)):
        raise ValueError(
            f"device is {device!r}: expected 'cpu', 'auto', 'cuda' or 'cuda:' and a number"
        )
    if kind == "cpu":
        ops.instruction_set()  # raises if the environment names a wrong one
    elif fault := cuda_fault(int(index or 0)):
        raise ValueError(f"device is {device!r}: {fault}")
    dtypes = _CPU_DTYPES if kind == "cpu" else _CUDA_DTYPES
    if dtype not in dtypes:
        raise ValueError(f"dtype is {quoted(dtype)}: expected {', '.join(dtypes)} on {kind}")


def choose_device(device: str | torch.device, dtype: str | None) -> str:
    """The name of a device: for "auto" CUDA if it works and has the dtype, otherwise the CPU.

    dtype: None if it is chosen by the device, afterwards.

    Raises ValueError as `check_device` does.
    """
    name = by_name(device)
    if name == "auto":
        has_dtype = dtype is None or dtype in _CUDA_DTYPES
        name = "cuda" if has_dtype and cuda_fault() is None else "cpu"
    check_device(name, dtype or "float32")
    return name


@cache
def cuda_fault(index: int = 0) -> str | None:
    """Why molspec cannot use this CUDA device, None if it can; found once.

    A forked process looks, because those that are forked from one that has used CUDA cannot use it.
    """
    if not ops.has_cuda():
        return (
            "molspec was installed without its CUDA operators; build it in a checkout where nvcc "
            "is: MOLSPEC_CUDA=ON pip install ."
        )
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build for the CPU; install one for CUDA"
    if not torch.cuda.is_initialized() and _fault_of_forked(index) is None:
        return None
    return _fault_here(index)


def check_forkable(device: str, processes: object) -> None:
    """Raise ValueError if this process has used CUDA, so that forked ones cannot use the device."""
    if torch.cuda.is_initialized() or _fault_of_forked(int(device.partition(":")[2] or 0)):
        raise ValueError(
            f"processes is {processes!r}: expected 1 on {device} in a process that has used CUDA, "
            "because the processes that it forks cannot use it; begin with those"
        )


def _fault_of_forked(index: int) -> str | None:
    """Why a process that is forked from this one cannot use a CUDA device, None if it can."""

    def look(indices: Iterable[int]) -> Iterator[str | None]:
        warnings.simplefilter("ignore")  # of torch, if this process has used CUDA
        for index in indices:
            try:
                yield _fault_here(index)
            except RuntimeError as error:
                yield str(error)

    (fault,) = in_processes(look, [index], 1, lambda _: DIED)
    return fault


def _fault_here(index: int) -> str | None:
    """Why this process cannot use a CUDA device, None if it can. It has used CUDA then."""
    if not torch.cuda.is_available():
        return "no CUDA device is available"
    if index >= torch.cuda.device_count():
        return f"expected a number below {torch.cuda.device_count()}"
    if (found := torch.cuda.get_device_capability(index)) < _LEAST_CAPABILITY:
        return (
            f"its compute capability is {found[0]}.{found[1]}, expected "
            f"{_LEAST_CAPABILITY[0]}.{_LEAST_CAPABILITY[1]} (Ampere) or later"
        )
    try:
        return version_fault(*ops.cuda_versions())
    except ImportError as error:
        return str(error)


def is_lost(device: str) -> bool:
    """Whether CUDA has failed permanently: after an illegal access every call fails."""
    if device == "cpu":
        return False
    try:
        synchronize(device)
    except RuntimeError:
        return True
    return False


def version_fault(driver: int, runtime: int) -> str | None:
    """The fault if a driver is older than the CUDA that the operators were built with.

    torch may still work with it: it has its own CUDA. Versions are those of `ops.cuda_versions`;
    within a major version every driver works.
    """
    if driver // 1000 >= runtime // 1000:
        return None
    return (
        f"its driver runs CUDA up to {_named(driver)}, expected {runtime // 1000}.0 or later, as "
        f"molspec was built with CUDA {_named(runtime)}; update the driver, or install molspec "
        f"with an nvcc of CUDA {driver // 1000}"
    )


def _named(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def make_engine(
    spec: ModelSpec, weights: Mapping[str, Tensor], device: str, dtype: str
) -> NativeEngine | CudaEngine:
    """The engine for a device ("cpu", "cuda", "cuda:1") and a dtype by name.

    Raises ValueError as `check_device` does.
    """
    check_device(device, dtype)
    if device == "cpu":
        return NativeEngine(spec, weights, _CPU_DTYPES[dtype])
    return CudaEngine(spec, weights, _CUDA_DTYPES[dtype], torch.device(device))
