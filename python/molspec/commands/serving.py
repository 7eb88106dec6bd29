"""The command `serve`."""

import os
import re
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from molspec.commands.command import Given, command, extra
from molspec.commands.flags import ModelFlags, StockFlags
from molspec.common.console import UsageError, print_err
from molspec.common.fields import setting
from molspec.common.workers import MOST
from molspec.server.limits import Limits

#: Host names that only this machine reaches; in a request ::1 is in brackets.
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
#: A scheme, a host and a port, without a path: browsers leave out the usual port.
_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:-]+(?<!:80)(?<!:443)")


@dataclass(frozen=True)
class AccessFlags:
    """Where the server listens, and who may call it."""

    host: str = setting("127.0.0.1", "0.0.0.0 accepts connections from other machines.")
    port: int = setting(8000, "Port; 0 takes any free port.", least=0, most=65535)
    api_key_file: Path | None = setting(
        None, "File of keys, one on each line; requests need one of them."
    )
    allowed_host: list[str] | None = setting(
        None,
        "A name by which clients reach the server; may be repeated. On 127.0.0.1 that and "
        "localhost are always allowed; elsewhere every name is unless you give some.",
    )
    allowed_origin: list[str] | None = setting(
        None,
        "An origin such as https://lims.example.org, whose pages may call the server from a "
        "browser; may be repeated. * is every one, and is refused with keys.",
    )

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys in the file. Raises UsageError if it has none."""
        if (file := self.api_key_file) is None:
            return ()
        text = file.read_text(encoding="utf-8-sig", errors="replace")
        keys = tuple(filter(None, map(str.strip, text.splitlines())))
        if any(key.startswith("#") for key in keys):
            raise UsageError(f"{file} has a line that begins with '#': every line is a key")
        if not keys:
            raise UsageError(f"{file} holds no key: expected one a line")
        if not text.isascii():  # a browser cannot send it
            raise UsageError(f"{file} holds a key that is not ASCII")
        return keys

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names that a request may give; none if any is allowed."""
        own = _LOCAL if self.host in (*_LOCAL, "::1") else ()
        return (*own, *(self.allowed_host or ()))

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins as browsers send them. Raises UsageError for another text, or * with keys."""
        given = tuple(self.allowed_origin or ())
        if "*" in given and self.keys:
            raise UsageError("--allowed-origin is '*' with keys: expected the origins of the pages")
        for origin in given:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise UsageError(f"--allowed-origin is {origin!r}: expected https://NAME or *")
        return given


@command
def serve_command(
    models: list[str] | None = setting(
        None,
        "A bundled model, a checkpoint, or a name and its checkpoint; A+B averages two. By default "
        "all bundled models.",
        flags=("--model", "-m"),
        metavar="NAME[=PATH]",
    ),
    *,
    access: AccessFlags,
    processes: int = setting(1, "Processes with the models, on one port.", most=MOST),
    batch_size: int = setting(32, "Queries decoded together."),
    stock: StockFlags,
    log_level: Literal["error", "warning", "info", "debug"] = setting(
        "warning", "What is logged to standard error."
    ),
    access_log: bool = setting(False, "Log a line for each request, without its body."),
    model: Annotated[dict[str, Any], Given(ModelFlags, ("device", "dtype", "threads"))],
    limits: Limits,
) -> None:
    """Serve models over HTTP, with a page to draw in. Ctrl-C or SIGTERM stops the server."""
    with extra("serve", "server"):
        from molspec.server.processes import run_many
        from molspec.server.serving import ServerSettings, listen, serve
    settings = ServerSettings(
        _models(models),
        **model,
        batch_size=batch_size,
        limits=limits,
        keys=access.keys,
        hosts=access.hosts,
        origins=access.origins,
        log_level=log_level,
        access_log=access_log,
        stock=stock.arguments(),
    )
    names = [name for name, _ in settings.models]
    with listen(access.host, access.port) as taken:
        if processes == 1:
            serve(settings, taken, partial(_tell, names, stock))
        else:
            stock.tell()  # once, where each process tells its address
            run_many(settings, taken, processes, partial(_tell, names, None))


def _tell(models: list[str], stock: StockFlags | None, url: str) -> None:
    if stock is not None:
        stock.tell()
    print_err(f"serving {', '.join(models)} at {url}")


def _models(given: list[str] | None) -> list[tuple[str, str]]:
    """Names and their values; a path that exists has the name of its file.

    Raises UsageError for a repeated or an invalid name.
    """
    from molspec.checkpoints.bundled import bundled_names, locate
    from molspec.checkpoints.ensemble import members

    found: dict[str, str] = {}
    for text in given or bundled_names():
        name, equals, path = text.partition("=")
        if os.path.exists(text):
            name, path = Path(text).name, text
        if not name or "/" in name or (equals and not path):
            raise UsageError(f"--model is {text!r}: expected NAME, or NAME=PATH")
        if name in found:
            raise UsageError(f"--model names {name!r} twice")
        found[name] = path or name
        for each in members(found[name]):
            locate(each)
    return list(found.items())
