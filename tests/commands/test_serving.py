"""The arguments of `molspec serve`; tests/server runs servers."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from molspec.server import serving
from tests.conftest import Run


def test_a_file_of_keys_may_begin_with_a_byte_order_mark(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[serving.ServerSettings] = []
    monkeypatch.setattr(serving, "listen", lambda *_: nullcontext())
    monkeypatch.setattr(serving, "run", lambda settings, *_: started.append(settings))
    (tmp_path / "keys").write_text("one\n\n two \n", encoding="utf-8-sig")
    assert run("serve", "--api-key-file", str(tmp_path / "keys")) == 0
    assert started[0].keys == ("one", "two")


@pytest.mark.parametrize(
    "origin", ["https://*.example.org", "lims.example.org", "https://a/", "https://a:443", "null"]
)
def test_what_no_browser_sends_is_not_an_origin(run: Run, origin: str) -> None:
    assert run("serve", "--allowed-origin", origin) == 2
    assert "--allowed-origin is" in run.err


def test_every_origin_is_refused_with_keys(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[serving.ServerSettings] = []
    monkeypatch.setattr(serving, "listen", lambda *_: nullcontext())
    monkeypatch.setattr(serving, "run", lambda settings, *_: started.append(settings))
    (tmp_path / "keys").write_text("one\n")
    flags = ("serve", "--allowed-origin", "*", "--allowed-origin", "http://localhost:3000")
    assert run(*flags) == 0
    assert started[0].origins == ("*", "http://localhost:3000")
    assert run(*flags, "--api-key-file", str(tmp_path / "keys")) == 2
    assert "--allowed-origin is '*' with keys" in run.err
