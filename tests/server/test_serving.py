"""The command as a process: it prints its URL, stops cleanly, and restarts after a kill."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
import pytest

import molspec
from molspec import checkpoints
from molspec.common.console import UsageError
from molspec.server import processes, serving
from molspec.server.serving import ServerSettings
from tests import refused, tiny, waiting

QUERIES = [query for query in tiny.QUERIES if len(query) < 100]
_WAIT = 120


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving") / "tiny"
    checkpoints.write(tiny.checkpoint(), folder)
    return folder


@contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts the server; gives the process and the URL that it prints."""
    with subprocess.Popen(
        [sys.executable, "-m", "molspec", "serve", *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            if "--stock" not in arguments:
                assert "the stock is common" in process.stderr.readline()
            line = process.stderr.readline()
            match = re.fullmatch(r"molspec: serving tiny at (http://127\.0\.0\.1:\d+)\n", line)
            assert match, line
            yield process, match[1]
        finally:
            process.kill()


def test_one_process_serves_several_models_as_one(checkpoint: Path) -> None:
    other = checkpoint.parent / "other"
    checkpoints.write(tiny.checkpoint(2), other)
    with command("--model", f"tiny={checkpoint}+{other}", "--port", "0") as (process, url):
        body = {"queries": QUERIES, "max_length": 12, "merge_duplicates": False}
        results = httpx.post(f"{url}/v1/predict", json=body, timeout=_WAIT).json()["results"]
        assert _children(process) == []
        os.kill(process.pid, signal.SIGINT)
        # 0 if the parent of the tests ignores SIGINT, as a shell does for background jobs.
        assert process.wait(_WAIT) in (-signal.SIGINT, 130, 0)
    expected = molspec.load([checkpoint, other]).predict(QUERIES, max_length=12)
    assert [each["predictions"][0]["log_prob"] for each in results] == [
        each.predictions[0].log_prob for each in expected
    ]


def test_sigterm_under_load_answers_accepted_requests(checkpoint: Path) -> None:
    busy = Event()
    lost: list[str] = []

    def send_requests(url: str, number: int) -> int:
        """Sends requests until the server refuses them; each that it reads must be answered."""
        answered = 0
        while True:
            with httpx.Client(base_url=url, timeout=_WAIT) as client:
                try:
                    body = {"queries": QUERIES, "n_best": 3, "max_length": 60}
                    response = client.post("/v1/predict", json=body)
                except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError) as error:
                    if not isinstance(error, httpx.ConnectError) and not _was_never_read(error):
                        lost.append(f"{number}: {error!r}")
                    return answered
            assert response.status_code in (200, 503)
            if response.status_code == 503:
                return answered
            assert len(response.json()["results"]) == len(QUERIES)
            answered += 1
            busy.set()

    with command("--model", f"tiny={checkpoint}", "--port", "0") as (process, url):
        with ThreadPoolExecutor(8) as threads:
            futures = [threads.submit(send_requests, url, number) for number in range(8)]
            assert busy.wait(_WAIT)
            process.terminate()
            answered = [future.result(_WAIT) for future in futures]
        assert process.wait(_WAIT) == -signal.SIGTERM
    assert sum(answered) > 0
    assert lost == []


def _was_never_read(error: httpx.HTTPError) -> bool:
    """Whether the connection waited to be accepted when the port was closed."""
    return isinstance(error, httpx.ReadError)


def test_processes_share_a_port_and_end_when_the_parent_is_killed(checkpoint: Path) -> None:
    flags = ("--model", f"tiny={checkpoint}", "--processes", "2")
    with command(*flags, "--port", "0") as (process, url):
        assert process.stderr is not None
        assert process.stderr.readline() == f"molspec: serving tiny at {url}\n"  # the other one
        for _ in range(4):
            assert _answers(url)
        assert (
            'molspec_queries_total{model="tiny",outcome="answered"} 4.0'
            in httpx.get(f"{url}/metrics").text
        )
        process.kill()
        process.wait()
        waiting.until(lambda: not _answers(url), _WAIT)  # its child processes end too
    port = url.rpartition(":")[2]
    with command("--model", f"tiny={checkpoint}", "--port", port) as (process, new_url):
        assert new_url == url
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert _answers(url)


def _children(process: subprocess.Popen[str]) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not path.exists():
        pytest.skip("the system does not list child processes")
    return [int(child) for child in path.read_text().split()]


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_replaced_process_has_the_models_of_the_first(tmp_path: Path, how: str) -> None:
    checkpoints.write(tiny.checkpoint(), tmp_path / "tiny")
    (tmp_path / "stock.smi").write_text("CCO ethanol\n")
    flags = ("--model", f"tiny={tmp_path / 'tiny'}", "--stock", str(tmp_path / "stock.smi"))

    def answer(url: str) -> list[Any]:
        body = {"queries": QUERIES, "max_length": 9}
        results = httpx.post(f"{url}/v1/predict", json=body, timeout=_WAIT).json()["results"]
        return [httpx.get(f"{url}/v1/models").json(), *(each["predictions"] for each in results)]

    with command(*flags, "--processes", "2", "--port", "0") as (process, url):
        assert process.stderr is not None
        process.stderr.readline()
        expected, first = answer(url), _children(process)
        assert (expected[0]["stock"], expected[0]["match"]) == (1, "exact")
        if how == "changed":
            checkpoints.write(tiny.checkpoint(2), tmp_path / "tiny", overwrite=True)
            (tmp_path / "stock.smi").write_text("CCO ethanol\nCCN ethylamine\n")
        else:
            shutil.rmtree(tmp_path / "tiny")
            (tmp_path / "stock.smi").unlink()
        for child in first:
            os.kill(child, signal.SIGKILL)
        while "serving tiny" not in (line := process.stderr.readline()):
            assert line
        assert answer(url) == expected
        process.terminate()
        assert process.wait(_WAIT) == 0


class _Ended(NamedTuple):
    """A process that has ended, with status 9, and whether it listened before."""

    process: SimpleNamespace
    listens: Event

    @classmethod
    def make(cls, has_listened: bool, is_alive: bool = False) -> "_Ended":
        listens = Event()
        if has_listened:
            listens.set()
        return cls(SimpleNamespace(is_alive=lambda: is_alive, exitcode=9, pid=0), listens)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The group's clock, which a test sets."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(processes, "mark_process_dead", lambda pid: None)
    return clock


@pytest.mark.parametrize("fails", ["at its start", "to be forked"])
def test_a_server_that_listens_tries_replacements_with_growing_pauses(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    starts: list[float] = []

    def fork(_: object) -> _Ended:
        starts.append(clock.now)
        if len(starts) > 1 and fails == "to be forked":
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return _Ended.make(len(starts) == 1, is_alive=len(starts) == 1)

    monkeypatch.setattr(processes._Process, "fork", fork)
    group = processes._Group(lambda _: None, 2)
    while len(starts) < 10:
        group.look()
        clock.now += 0.25
    pauses = [later - earlier for earlier, later in pairwise(starts[1:])]
    for pause, expected in zip(pauses, [1, 2, 4, 8, 16, 32, 60, 60], strict=True):
        assert expected <= pause <= expected + 0.5  # and the time until it was seen to have ended


def test_a_server_of_which_no_process_listens_ends(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes._Process, "fork", lambda _: _Ended.make(False))
    group = processes._Group(lambda _: None, 1)
    for clock.now in (0, 0.5, 2, 2.5, 5):  # starts one, and sees that it has ended
        group.look()
    refused(UsageError, r"3 processes ended before any listened.* status 9", group.look)


def test_processes_share_models_on_the_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model()
    model.device = "cuda"
    monkeypatch.setattr(serving, "load", lambda *_: model)
    refused("processes is 2: expected 1 on cuda", ServerSettings([("tiny", "tiny")]).load, 2)


def _answers(url: str) -> bool:
    try:
        response = httpx.post(
            f"{url}/v1/predict", json={"queries": ["CCO"], "max_length": 9}, timeout=_WAIT
        )
    except httpx.HTTPError:
        return False
    return response.json()["results"][0]["error"] is None


def test_processes_that_cannot_start_end_the_server() -> None:
    command = [sys.executable, "-m", "tests.server.dying", "dying"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT)
    assert done.returncode == 2
    assert "processes ended before any listened" in done.stderr.splitlines()[-1]


def test_sigterm_ends_a_server_whose_threads_are_stuck() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "tests.server.dying", "stuck"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.terminate()
        assert process.wait(_WAIT) == -signal.SIGALRM
