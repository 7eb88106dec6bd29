"""The command as a process: it says where it listens, ends well, and comes back after a kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event

import httpx
import pytest

from molspec import checkpoints
from molspec.server import processes
from molspec.server.processes import Settings, listen
from tests import tiny
from tests.conftest import Run

QUERIES = [query for query in tiny.QUERIES if len(query) < 100]
_WAIT = 120


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving") / "tiny"
    checkpoints.write(tiny.checkpoint(), folder)
    return folder


@contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the URL that it says."""
    with subprocess.Popen(
        [sys.executable, "-m", "molspec", "serve", *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.fullmatch(r"molspec: serving tiny at (http://127\.0\.0\.1:\d+)\n", said)
            assert found, said + process.stderr.read()
            yield process, found[1]
        finally:
            process.kill()


def test_sigterm_under_load_answers_all_that_is_accepted(checkpoint: Path) -> None:
    busy = Event()
    lost: list[str] = []

    def ask(url: str, number: int) -> int:
        """Ask until the server takes no more connections; a request that is begun is answered."""
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
            asked = [threads.submit(ask, url, number) for number in range(8)]
            assert busy.wait(_WAIT)
            process.terminate()
            answered = [each.result(_WAIT) for each in asked]
        assert process.wait(_WAIT) == -signal.SIGTERM
    assert sum(answered) > 0
    assert lost == []


def _was_never_read(error: httpx.HTTPError) -> bool:
    """Whether the connection waited to be accepted when the port was closed."""
    return isinstance(error, httpx.ReadError)


def test_processes_share_a_port_and_end_with_the_one_that_was_killed(checkpoint: Path) -> None:
    flags = ("--model", f"tiny={checkpoint}", "--processes", "2")
    with command(*flags, "--port", "0") as (process, url):
        assert process.stderr is not None
        assert process.stderr.readline() == f"molspec: serving tiny at {url}\n"  # the second one
        for _ in range(4):
            assert _answers(url)
        assert (
            'molspec_queries_total{model="tiny",outcome="answered"} 4.0'
            in httpx.get(f"{url}/metrics").text
        )
        process.kill()
        process.wait()
        deadline = time.monotonic() + _WAIT
        while _answers(url):  # what it started leaves with it
            assert time.monotonic() < deadline
            time.sleep(0.05)
    port = url.rpartition(":")[2]
    with command("--model", f"tiny={checkpoint}", "--port", port) as (process, again):
        assert again == url
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert _answers(url)


def _answers(url: str) -> bool:
    try:
        response = httpx.post(
            f"{url}/v1/predict", json={"queries": ["CCO"], "max_length": 9}, timeout=_WAIT
        )
    except httpx.HTTPError:
        return False
    return response.json()["results"][0]["error"] is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--model =x", "--model is '=x': expected NAME, or NAME=PATH"),
        ("--model a/b", "--model is 'a/b': expected NAME, or NAME=PATH"),
        ("--model retro --model retro", "--model names 'retro' twice"),
        ("--model gone", "no model 'gone'"),
        ("--max-queries 0", "the limit queries is 0: expected more than 0"),
        ("--api-key-file /dev/null", "/dev/null holds no key: expected one a line"),
        ("--api-key-file /no/such", "/no/such: No such file or directory"),
        ("--dtype float8", "dtype"),
    ],
)
def test_wrong_use_is_told_in_a_line(
    run: Run, capfd: pytest.CaptureFixture[str], arguments: str, told: str
) -> None:
    assert run("serve", "--port", "0", *arguments.split()) == 2
    error = capfd.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_local_server_has_names_of_its_own(
    run: Run, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    started: list[Settings] = []
    monkeypatch.setattr(processes, "listen", lambda *_: nullcontext())
    monkeypatch.setattr(processes, "run", lambda settings, *_: started.append(settings))
    for given in ((), ("--allowed-host", "a.example")):
        assert run("serve", "--host", host, *given) == 0
    assert [each.hosts[3:] for each in started] == [(), ("a.example",)]
    assert all("[::1]" in each.hosts[:3] for each in started)


def test_a_port_that_is_taken_is_told(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert run("serve", "--port", str(port)) == 2
    assert capfd.readouterr().err == f"molspec: 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize(
    ("what", "said"),
    [("wrong", "molspec: the model is damaged\n"), ("dying", "3 processes in a row ended")],
)
def test_processes_that_cannot_start_end_the_server(what: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.dying", what],
        capture_output=True,
        text=True,
        timeout=_WAIT,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_extra_is_told(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("molspec.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run("serve") == 2
    assert "install the extra, pip install 'molspec[server]'" in capfd.readouterr().err


def test_the_process_is_the_one_that_serves(checkpoint: Path) -> None:
    """One process needs no other beside it."""
    with command("--model", f"tiny={checkpoint}", "--port", "0") as (process, url):
        assert _answers(url)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if children.exists():
            assert children.read_text() == ""
        os.kill(process.pid, signal.SIGINT)
        # 0 where who started the tests ignores SIGINT, as a shell does for what it leaves behind.
        assert process.wait(_WAIT) in (-signal.SIGINT, 130, 0)
