"""What a command prints: answers, progress, and an error of its user as one line and a status."""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")
#: What `except` takes.
Caught = type[Exception] | tuple[type[Exception], ...]

#: Standard input or output in place of a file.
STANDARD = "-"
_STANDARD_OUTPUT = "standard output"
#: Messages of torch for it, on the CPU and on CUDA, and of `processes`.
_NO_MEMORY = re.compile("can't allocate memory|out of memory|memory for another process")
#: With fewer items there is no bar: they are done before it could be read.
_FEW = 5
#: Seconds between lines of progress.
_MINUTE = 60.0
_STOPPED = "stopped; the same command resumes from the state that was saved last"
#: Characters of a value that an error shows.
_QUOTED = 80
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class UsageError(Exception):
    """The command cannot be carried out as given."""


def told(error: Exception, clear: tuple[type[Exception], ...] = ()) -> str:
    """The message of an exception, behind its kind unless that is one of `clear`.

    The kind alone if there is no message: an exception of a user may fail to make it.
    """
    try:
        return str(error) if isinstance(error, clear) else f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def quoted(text: object) -> str:
    """The repr of a value for an error; of a long one its beginning, and its length."""
    shown = repr(text)
    if len(shown) <= _QUOTED:
        return shown
    end, count = (shown[0], len(text)) if isinstance(text, str) else ("", len(shown))
    return f"{shown[:_QUOTED]}...{end} of {count:,} characters"


def shortened(text: str) -> str:
    """A line in which long words, and then the line, have only their beginnings and ends."""
    words = text.split(" ")
    text = " ".join(f"{w[:80]}...{w[-80:]}" if len(w) > 250 else w for w in words)
    return text if len(text) <= 1200 else f"{text[:400]} ... {text[-400:]}"


def lacks_memory(error: Exception) -> bool:
    """Whether memory is lacking, which is no fault of the query that meets it."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(told(error)))


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the command with one line and a status for a user's error; others have a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(141) from None
    except UsageError as error:
        print_err(str(error))
        raise SystemExit(2) from error
    except OSError as error:
        named = "" if error.filename is None else f"{error.filename or repr('')}: "
        print_err(f"{named}{error.strerror or error}")
        raise SystemExit(2) from error
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        print_err(
            "there is not enough memory; a smaller --batch-size or fewer --processes need less; "
            "a job that writes a file resumes by the same command"
        )
        raise SystemExit(2) from error


@contextmanager
def naming(file: str | Path) -> Iterator[None]:
    """Name this file in an OSError of reading or writing that names none."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(file)) from error


@contextmanager
def prefixing(
    text: str, kind: type[Exception] = ValueError, caught: Caught = ValueError
) -> Iterator[None]:
    """Raise errors that are caught as of this kind, with a text before theirs."""
    try:
        yield
    except caught as error:
        raise kind(f"{text}{error}") from error


def occupy_standard_streams() -> None:
    """Reserve the numbers of closed standard streams, so that no opened file gets them.

    Characters that standard output cannot encode are escaped.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def check_standard_output() -> None:
    """Raise UsageError if nothing can be written to standard output."""
    if sys.stdout is None:
        raise UsageError(f"{_STANDARD_OUTPUT} is closed")


def print_out(text: str) -> None:
    """Write lines to standard output."""
    check_standard_output()
    with naming(_STANDARD_OUTPUT):
        try:
            print(text, flush=True)
        except OSError:
            # The rest of its buffer would fail and be reported again when the process ends.
            with suppress(OSError, ValueError):  # if it is not a file
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, sys.stdout.fileno())
                os.close(null)
            raise


def print_err(message: str) -> None:
    """Write a line to standard error, at once: several processes may write there.

    A bar that is shown there gives way to it.
    """
    line = f"molspec: {shortened(printed(' '.join(message.split())))}\n"
    tqdm = sys.modules.get("tqdm")
    with tqdm.tqdm.external_write_mode(sys.stderr) if tqdm else nullcontext():
        print(line, end="", file=sys.stderr, flush=True)


def printed(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return _CONTROL.sub("\ufffd", text)


def print_logs(name: str) -> None:
    """Print a logger's messages to standard error, except those for debugging."""
    logger = logging.getLogger(name)
    if not any(isinstance(handler, _Printer) for handler in logger.handlers):
        logger.addHandler(_Printer())
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Printer(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_err(record.getMessage())


@contextmanager
def stages(names: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Show the current stage and the number of finished ones, and clear that afterwards.

    Call the yielded function at the end of each stage.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # no thread beside the one that loads a model
    with tqdm(total=len(names), leave=False, bar_format="{desc} |{bar:20}| {n}/{total}") as bar:
        bar.set_description_str(names[0])

        def done() -> None:
            bar.update()
            bar.set_description_str(names[min(bar.n, len(names) - 1)])

        yield done


def counted(
    things: Iterable[T],
    unit: str,
    count: Callable[[], int | None] = lambda: None,
    done: int = 0,
    remark: Callable[[], str] = lambda: "",
) -> Iterator[T]:
    """Show the number of items, counted from `done`: by a bar, or for a log a line a minute.

    count: about how many items there are, if that is known.
    remark: what is shown beside the number.
    """

    def in_bar() -> Iterator[T]:
        from tqdm import tqdm

        rest = iter(things)
        yield from islice(rest, _FEW)
        shown = {"initial": done + _FEW, "total": count(), "delay": 0.1, "unit": f" {unit}"}
        with tqdm(rest, **shown) as bar:
            for thing in bar:
                yield thing
                bar.set_postfix_str(remark(), refresh=False)

    def in_lines() -> Iterator[T]:
        began = last = perf_counter()
        total: int | None = None
        for number, thing in enumerate(things, start=1):
            yield thing
            if (now := perf_counter()) - last < _MINUTE:
                continue
            total = count() if last == began else total
            rate, last = number / (now - began), now
            of = f" of {total}" if total else ""
            told = [f"{done + number}{of} {unit}", f"{rate:.3g} a second"]
            if total:
                left = max(0, total - done - number) / rate / _MINUTE
                told.append(f"about {left:.0f} minutes left")
            print_err(", ".join(filter(None, (*told, remark()))))

    return in_bar() if sys.stderr.isatty() else in_lines()


@contextmanager
def resumable() -> Iterator[None]:
    """At Ctrl-C and SIGTERM, end the command, and print that the same one resumes."""
    own = os.getpid()

    def end(number: int, _: object) -> None:
        if os.getpid() != own:  # a worker
            os._exit(128 + number)
        print_err(_STOPPED)
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()  # only it may set handlers
    before = signal.signal(signal.SIGTERM, end) if is_main else None
    try:
        yield
    except KeyboardInterrupt:
        print_err(_STOPPED)
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
