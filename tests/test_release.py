"""A release: its files agree, it keeps the torch that is there, and names one that cannot load."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
import torch

import molspec
from molspec import __version__
from molspec.engine import ops

ROOT = Path(__file__).parents[1]


def test_version_is_the_same_in_every_file() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', project, re.M) == [molspec.__version__]
    assert re.findall(r"^version: (.+)$", citation, re.M) == [molspec.__version__]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
def test_wheels_are_built_for_every_listed_python() -> None:
    import tomllib

    values = tomllib.loads((ROOT / "pyproject.toml").read_text())
    prefix = "Programming Language :: Python :: 3."
    minors = [
        each.removeprefix(prefix)
        for each in values["project"]["classifiers"]
        if each.startswith(prefix)
    ]
    built = values["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp3{minor}-*" for minor in minors]
    assert values["project"]["requires-python"] == f">=3.{minors[0]}"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is newer")
def test_the_image_has_what_the_server_plans_with() -> None:
    import tomllib

    values = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (installed,) = re.findall(r"\.whl\)\[(.+)\]", (ROOT / "Dockerfile").read_text())
    assert {*installed.split(",")} == {"server", "planning"}
    assert {"server", "planning"} <= values["project"]["optional-dependencies"].keys()


def _wheel_of_the_installed(folder: Path) -> Path:
    """Write a wheel with molspec's metadata and nothing else."""
    wheel = folder / f"molspec-{__version__}-py3-none-any.whl"
    metadata = distribution("molspec").read_text("METADATA")
    assert metadata is not None
    files = {"METADATA": metadata, "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n", "RECORD": ""}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"molspec-{__version__}.dist-info/{name}", text)
    return wheel


def _environment_with(folder: Path, **versions: str) -> Path:
    """Make an environment where pip finds these versions installed; returns its Python."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name, version in versions.items():
        information = packages / f"{name}-{version}.dist-info"
        information.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (information / "METADATA").write_text(text)
    return folder / "bin" / "python"


def _would_install(folder: Path, torch_version: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("pip", reason="the environment was made without pip")
    others = {"numpy": "9", "rdkit": "9999", "safetensors": "9", "tqdm": "9", "click": "9"}
    python = _environment_with(folder / "environment", torch=torch_version, **others)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = ["pip", "--python", str(python), "install", "--dry-run", "--no-index"]
    return subprocess.run(
        [sys.executable, "-m", *command, str(_wheel_of_the_installed(folder))],
        env=settings | {"PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("version", ["2.11.0", "2.99.0+cu132"])
def test_pip_keeps_a_torch_that_is_new_enough(tmp_path: Path, version: str) -> None:
    done = _would_install(tmp_path, version)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Would install molspec-{__version__}"


def test_pip_asks_for_a_torch_that_is_new_enough(tmp_path: Path) -> None:
    done = _would_install(tmp_path, "2.10.0")
    assert done.returncode != 0
    assert "No matching distribution found for torch>=2.11" in done.stderr


def test_a_torch_that_cannot_load_the_operators_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.so").write_bytes(b"of another torch")
    monkeypatch.setattr(ops, "_BUILT", tmp_path)
    with pytest.raises(ImportError) as caught:
        ops._load("broken.so")
    message = str(caught.value)
    assert message.startswith(f"broken.so does not load with torch {torch.__version__}: ")
    assert "file too short" in message or "invalid ELF header" in message or "dlopen" in message
    assert message.endswith(
        "; molspec needs torch 2.11 or later and was tried with 2.11 to 2.15: install one of "
        "these, or build molspec again beside this one"
    )
