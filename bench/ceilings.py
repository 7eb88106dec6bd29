"""The measured ceilings of one core: a native routine reads memory, another multiplies and adds.

ceilings.cpp is compiled for this machine at its first use, by $CXX or c++. Reading is measured by
repeated passes over a buffer as large as the weights, so that it uses the cache level that would
hold the weights. Products are measured in registers only, in sixteen independent chains, with the
dot-product instruction for bfloat16 if there is one.
"""

import ctypes
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

from timing import Call

_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")
_SOURCE = Path(__file__).with_name("ceilings.cpp")
_PRODUCT_REPEATS = 4096
_READ_STEP = 1024


def reader(byte_count: int) -> tuple[int, Call]:
    """The number of bytes (byte_count, rounded up), and a call that reads them once."""
    bytes_read = -(-byte_count // _READ_STEP) * _READ_STEP
    buffer = torch.zeros(bytes_read // 4)
    read = _library().read_bytes
    address = ctypes.c_void_p(buffer.data_ptr())

    def call(_buffer: torch.Tensor = buffer) -> object:
        return read(address, ctypes.c_int64(bytes_read))

    return bytes_read, call


def multiplier(dtype: torch.dtype) -> tuple[int, Call]:
    """The number of operations (products and sums), and a call that does them."""
    name = str(dtype).removeprefix("torch.")
    library = _library()
    products = getattr(library, f"{name}_products")
    operations = getattr(library, f"{name}_operations")() * _PRODUCT_REPEATS
    arguments = ctypes.c_float(0.5), ctypes.c_int64(_PRODUCT_REPEATS)
    return operations, lambda: products(*arguments)


@cache
def _library() -> ctypes.CDLL:
    compiler = os.environ.get("CXX", "c++")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "ceilings.so"
        command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(built)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or error
            raise RuntimeError(f"{' '.join(command)}: {reason}") from error
        library = ctypes.CDLL(str(built))
    for name in ("read_bytes", "float32_products", "bfloat16_products", "int8_products"):
        getattr(library, name).restype = ctypes.c_float
    for name in ("float32_operations", "bfloat16_operations", "int8_operations"):
        getattr(library, name).restype = ctypes.c_int64
    return library
