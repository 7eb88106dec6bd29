"""The arguments of `molspec serve`; tests/server runs servers."""

import socket
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from molspec.server import serving
from molspec.server.serving import ServerSettings
from tests import refused
from tests.conftest import Run

Started = list[ServerSettings]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    """The settings of servers that would have been started, in a folder of their own."""
    settings: Started = []
    monkeypatch.setattr(serving, "listen", lambda *_: nullcontext())
    monkeypatch.setattr(serving, "serve", lambda given, *_: settings.append(given))
    monkeypatch.chdir(tmp_path)
    return settings


def test_a_file_of_keys_may_begin_with_a_byte_order_mark(run: Run, started: Started) -> None:
    Path("keys").write_text("one\n\n two \n", encoding="utf-8-sig")
    assert run("serve", "--api-key-file", "keys") == 0
    assert started[0].keys == ("one", "two")


def test_the_stock_is_common_unless_files_are_named(run: Run, started: Started) -> None:
    for flags in ("", "--stock a.smi", "--stock common --stock a.smi --stock-column SMILES"):
        assert run(f"serve {flags}") == 0
    given = [dict(each.stock or {}) for each in started]
    assert [each["paths"] for each in given] == [["common"], ["a.smi"], ["common", "a.smi"]]
    assert given[2]["stock_column"] == "SMILES"


def test_every_origin_is_allowed_without_keys(run: Run, started: Started) -> None:
    flags = ("serve", "--allowed-origin", "*", "--allowed-origin", "http://localhost:3000")
    assert run(*flags) == 0
    assert started[0].origins == ("*", "http://localhost:3000")
    Path("keys").write_text("one\n")
    assert run(*flags, "--api-key-file", "keys") == 2
    assert "--allowed-origin is '*' with keys" in run.err


def test_a_path_that_exists_is_a_model(run: Run, started: Started) -> None:
    Path("runs").mkdir()
    name = "epoch=19-step=12000.pt"
    for path in (name, f"runs/{name}"):
        Path(path).touch()
        for given in (path, f"mine={path}"):
            assert run("serve", "--model", given) == 0
    assert [used.models for used in started] == [
        *([(name, name)], [("mine", name)], [(name, f"runs/{name}")], [("mine", f"runs/{name}")])
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_local_server_allows_its_own_host_names(run: Run, started: Started, host: str) -> None:
    for flags in ((), ("--allowed-host", "a.example")):
        assert run("serve", "--host", host, *flags) == 0
    assert [used.hosts[3:] for used in started] == [(), ("a.example",)]
    assert all("[::1]" in used.hosts[:3] for used in started)


@pytest.mark.parametrize("content", [b"schl\xfcssel", "schl\u00fcssel".encode()])
def test_keys_that_no_browser_can_send_are_refused(
    run: Run, started: Started, content: bytes
) -> None:
    Path("port").write_bytes(content)  # which is no fault of --port
    assert run("serve", "--port", "0", "--api-key-file", "port") == 2
    assert run.err.endswith(" port holds a key that is not ASCII\n")
    assert not started


def test_places_that_cannot_be_listened_at_are_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert run("serve", "--port", str(port)) == 2
    assert run.err == f"molspec: 127.0.0.1:{port}: Address already in use\n"
    refused(OSError, "no host has such a name", serving.listen, "127.0.0..1", 8000)

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert run("serve", "--host", "gone.example") == 2
    assert run.err == "molspec: gone.example:8000: Name or service not known\n"


def test_a_missing_extra_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("molspec.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert run("serve") == 2
    assert "serve needs the extra 'server'" in run.err
    assert "pip install 'molspec[server]'" in run.err
