"""Settings of the whole suite."""

import os
import shlex
import sys
from typing import Any

# For this process, before torch is imported, and for those that tests start: on busy cores, torch's
# threads spin for three times the processor time of one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from molspec.commands import cli, jobs
from molspec.commands.flags import ModelFlags
from molspec.prediction.config import Identity
from molspec.prediction.model import Model
from tests import cli_with_fake_model, tiny

#: The fake model, and the flags that it was loaded with.
Loaded = dict[str, Any]

# The same examples every time, and no deadline: the suite is deterministic.
settings.register_profile("molspec", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("molspec")


@pytest.fixture(scope="module")
def model() -> Model:
    """A small random model, unless a module or a folder has its own."""
    return tiny.model()


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    seen: Loaded = {"model": cli_with_fake_model.FakeModel()}

    def load(flags: ModelFlags) -> cli_with_fake_model.FakeModel:
        seen.update(name=flags.model_name, device=flags.device, dtype=flags.dtype)
        model = seen["model"]
        model.dtype = flags.dtype or model.runs_in
        model.identity = Identity(
            flags.model_name, flags.device, model.dtype
        )  # another model has other weights
        return model

    monkeypatch.setattr(jobs, "load_model", load)
    return seen


class Run:
    """Runs the command line in this process; `out` and `err` are what the last command printed."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self._printed: Any = None

    def __call__(self, *arguments: str) -> int:
        """The exit status of a command, given by its words or as one line."""
        self._captured.readouterr()
        self._printed = None
        words = shlex.split(arguments[0]) if len(arguments) == 1 else arguments
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["molspec", *words])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        return ended.value.code or 0  # type: ignore[return-value]

    @property
    def out(self) -> str:
        return self._read().out

    @property
    def err(self) -> str:
        return self._read().err

    def _read(self) -> Any:
        self._printed = self._printed or self._captured.readouterr()
        return self._printed


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    """A test may read what is printed itself too."""
    own = "capsys" in request.fixturenames
    return Run(request.getfixturevalue("capsys" if own else "capfd"))
