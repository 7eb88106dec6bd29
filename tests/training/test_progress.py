"""An interrupted preparation resumes; tests/faults kills it at every write."""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from molspec.training import Judge, PrepareOptions, preparation as module, prepare, prepared
from tests import refused
from tests.training.tiny import sample_reactions

OPTIONS = PrepareOptions("retro", variants=2, validation_share=0.2, max_nats=2.0)


class Stop(BaseException):
    """Stands for a kill: code that handles errors does not catch it."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("files")
    rows = sample_reactions(40)
    groups = {"files": rows[:25], "validation": rows[20:32], "exclude": rows[30:]}
    for name, group in groups.items():
        (folder / f"{name}.smi").write_text("\n".join(group))
    return {name: [folder / f"{name}.smi"] for name in groups}


def run(files: dict[str, list[Path]], output: Path, **options: Any) -> None:
    inputs = dict(files)
    prepare(inputs.pop("files"), output, replace(OPTIONS, **options), judge=JUDGE, **inputs)


def _log_probs(pairs: Iterable[tuple[str, str, bool]]) -> Iterator[float | None]:
    return (-len(source) / 17 if len(source) % 5 else None for source, *_ in pairs)


JUDGE = Judge("by length", _log_probs)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def unbroken(files: dict[str, list[Path]], tmp_path: Path) -> dict[str, bytes]:
    run(files, tmp_path / "whole")
    return contents(tmp_path / "whole")


def test_a_row_is_judged_once(files: dict[str, list[Path]], tmp_path: Path) -> None:
    judged: list[str] = []

    def stopping(pairs: Iterable[tuple[str, str, bool]]) -> Iterator[float | None]:
        for source, *others in pairs:
            if len(judged) == 7:
                judged.append("")
                raise Stop
            judged.append(source)
            yield from _log_probs([(source, *others)])

    judge = Judge("by length", stopping)
    inputs = dict(files)
    reactions = inputs.pop("files")
    with pytest.raises(Stop):
        prepare(reactions, tmp_path / "out", OPTIONS, judge=judge, **inputs)
    prepare(reactions, tmp_path / "out", OPTIONS, judge=judge, **inputs)
    judged.remove("")
    assert len(set(judged)) == len(judged) > 7


def stop_early(files: dict[str, list[Path]], output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> Any:
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(module.Stages, "commit", stop)
        with pytest.raises(Stop):
            run(files, output)


def test_interrupted_commit_is_completed(
    files: dict[str, list[Path]],
    unbroken: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "out"
    stop_early(files, output, monkeypatch)
    shutil.copytree(output / "unfinished" / "done", output, dirs_exist_ok=True)
    refused("it exists already", run, files, output, seed=1)
    run(files, output)
    assert contents(output) == unbroken
    run(files, output)  # is done already
    assert contents(output) == unbroken
    refused("it exists already, prepared from other options: take", run, files, output, seed=1)
    other = {**files, "files": [tmp_path / "files.smi"]}
    other["files"][0].write_text(files["files"][0].read_text() + "\n")
    refused("it exists already, prepared from other contents: take", run, other, output)
    given = {**files, "vocabulary": prepared.read(output).vocabulary}
    refused("it exists already, prepared from other vocabulary: take", run, given, output)


def test_empty_folder_is_accepted_as_output(
    files: dict[str, list[Path]], unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    run(files, tmp_path / "out")
    assert contents(tmp_path / "out") == unbroken
    (tmp_path / "file").touch()
    refused("it exists already", run, files, tmp_path / "file")


def test_resuming_with_other_options_or_reactions_is_refused(
    files: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, changed = tmp_path / "out", tmp_path / "files.smi"
    shutil.copy(files["files"][0], changed)
    files = {**files, "files": [changed, *files["files"]]}  # of one name
    stop_early(files, output, monkeypatch)
    refused("options is .*'seed': 1.*holds a preparation with", run, files, output, seed=1)
    lines = files["files"][0].read_text().split("\n")
    for count in (3, 24):
        changed.write_text("\n".join([*lines[:count], "CCO>>CC=O", *lines[count + 1 :]][:24]))
        refused("^contents is .*holds a preparation with", run, files, output)
