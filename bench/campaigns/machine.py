"""Describes the machine of a measurement."""

import datetime
import os
import platform
from pathlib import Path

import torch


def describe() -> dict[str, str | int]:
    """The machine, the relevant software and the date, for the head of a report."""
    return {
        "processor": processor(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
    }


def described(**more: str) -> str:
    """The same in one line, followed by `more`."""
    return ", ".join(f"{name} {value}" for name, value in {**describe(), **more}.items())


def processor() -> str:
    """The processor's name, family and model: cloud machines hide the exact name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    pairs = (line.partition(":") for line in lines)
    entries = {name.strip(): value.strip() for name, _, value in pairs}
    named = entries.get("model name", platform.machine())
    return f"{named}, family {entries.get('cpu family', '?')}, model {entries.get('model', '?')}"
