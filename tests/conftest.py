"""Settings of the whole suite."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

# For this process, before torch is imported, and for those that tests start: on busy cores, torch's
# threads spin for three times the processor time of one thread.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
from hypothesis import settings

from molspec.commands import cli, jobs
from molspec.commands.flags import ModelFlags
from molspec.prediction.config import Identity
from tests.cli_with_fake_model import FakeModel

Run = Callable[..., int]

# The same examples every time, and no deadline: the suite is deterministic.
settings.register_profile("molspec", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("molspec")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fake model, and the flags that it was loaded with."""
    seen: dict[str, Any] = {"model": FakeModel()}

    def load(flags: ModelFlags) -> FakeModel:
        seen.update(name=flags.model_name, device=flags.device, dtype=flags.dtype)
        seen["model"].identity = Identity(
            flags.model_name, flags.device, flags.dtype
        )  # another model has other weights
        return seen["model"]

    monkeypatch.setattr(jobs, "load_model", load)
    return seen


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in this process and returns its exit status."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["molspec", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code or 0  # type: ignore[return-value]

    return run
