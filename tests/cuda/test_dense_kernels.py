"""The CUDA kernels of the dense operators, run as host code, against their twins."""

import pytest

from tests import refused
from tests.cuda.emulator import Emulator
from tests.engine import dense


def test_kernels_equal_their_twins(cuda: Emulator) -> None:
    dense.check(cuda.ops)


@pytest.mark.parametrize(("name", "arguments", "message"), dense.REFUSED)
def test_bad_arguments_are_refused(
    cuda: Emulator, name: str, arguments: tuple[object, ...], message: str
) -> None:
    refused(RuntimeError, f"^{message}", getattr(cuda.ops, name), *arguments)
