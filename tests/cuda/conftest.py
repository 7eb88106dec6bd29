"""Fixture of the CUDA operators, run as host code."""

import pytest

from tests.cuda import emulator


@pytest.fixture(scope="session")
def _emulator(pytestconfig: pytest.Config) -> emulator.Emulator:
    return emulator.build(pytestconfig.cache.mkdir("cuda_emulation"))


@pytest.fixture
def cuda(_emulator: emulator.Emulator) -> emulator.Emulator:
    """The emulated machine in its initial state."""
    _emulator.set(seed=1)
    return _emulator
