"""Files of results: whole, killed anywhere, gone on with, refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from io import RawIOBase
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from molspec import journal
from molspec.files import (
    FORMATS,
    Answer,
    OutputContext,
    Query,
    ResultFile,
    ResultStream,
    is_stream,
    results,
)
from molspec.results import Prediction, Result

QUERIES = [Query("CO", "a"), Query("X", "b"), Query("CN"), Query("CC", "ü"), Query("CO", "a")]
CONTEXT = OutputContext("retro", "retro")
SETTINGS = {"model": "retro", "n_best": 1}


class Killed(BaseException):
    """As a kill: nothing that comes after it is done."""


def answers(queries: Iterable[Query], done: int = 0) -> Iterator[Answer]:
    for number, query in enumerate(queries, start=done + 1):
        result = Result(query.smiles, (Prediction(query.smiles, -0.5 * number),))
        if query.smiles == "X":
            result = Result("X", error="it has an X")
        yield Answer(number, query, result)


def open_file(
    folder: Path,
    form: str = "csv",
    part_size: int | None = None,
    settings: dict[str, Any] = SETTINGS,
    overwrite: bool = False,
) -> ResultFile:
    path = folder / f"out.{form}"
    return ResultFile(path, FORMATS[form], CONTEXT, settings, part_size, overwrite)


def run(file: ResultFile, queries: list[Query] = QUERIES) -> list[int]:
    """Work off the rest; gives the numbers of what was answered."""
    rest = file.rest(iter(queries))
    return [answer.number for answer in file.write(answers(rest, file.progress.done))]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def test_a_file_beside_its_journal(folder: Path) -> None:
    file = open_file(folder)
    assert run(file) == [1, 2, 3, 4, 5]
    assert (file.progress.done, file.progress.failed, file.is_whole) == (5, 1, True)
    rows = (folder / "out.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows] == ["id", "a", "b", "3", "ü", "a"]
    settings, progress = (folder / "out.csv.journal").read_text().splitlines()
    assert json.loads(settings) == SETTINGS
    assert json.loads(progress)["done"] == 5
    assert sorted(content(folder)) == ["out.csv", "out.csv.journal"]


def test_parts_are_files_of_their_own(folder: Path) -> None:
    run(open_file(folder, part_size=2))
    whole = content(folder)
    assert list(whole) == ["out-00001.csv", "out-00002.csv", "out-00003.csv", "out.csv.journal"]
    assert [text.count(b"\n") for text in whole.values()] == [3, 3, 2, 2]
    assert all(whole[name].startswith(b"id,query,") for name in whole if "-" in name)


def dying(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Let writing and renaming die at the call `last`, a write after half of its bytes."""
    calls = count()
    write, replace = journal.write_whole, Path.replace

    def write_half(stream: RawIOBase, data: bytes, name: str) -> None:
        if next(calls) >= last:
            write(stream, data[: len(data) // 2], name)
            raise Killed
        write(stream, data, name)

    def replace_not(self: Path, target: Path) -> Path:
        if next(calls) >= last:
            raise Killed
        return replace(self, target)

    monkeypatch.setattr(journal, "write_whole", write_half)
    monkeypatch.setattr(results, "write_whole", write_half)
    monkeypatch.setattr(Path, "replace", replace_not)


@pytest.mark.parametrize("part_size", [None, 1, 2, 5])
@pytest.mark.parametrize("form", ["csv", "html"])
def test_a_job_killed_at_any_write_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, part_size: int | None
) -> None:
    (tmp_path / "whole").mkdir()
    run(open_file(tmp_path / "whole", form, part_size))
    whole = content(tmp_path / "whole")
    for last in count():
        folder = tmp_path / str(last)
        folder.mkdir()
        with monkeypatch.context() as patch:
            dying(patch, last)
            try:
                run(open_file(folder, form, part_size))
                break
            except Killed:
                pass
        for name, text in content(folder).items():
            if "journal" not in name and "unfinished" not in name:
                assert text == whole[name]  # what is in its place is whole
        begun = open_file(folder, form, part_size)
        if begun.progress.done < len(QUERIES) or not begun.is_whole:
            done = begun.progress.done
            assert run(begun) == list(range(done + 1, len(QUERIES) + 1))
        left = content(folder)
        left.pop(f"out.{form}.journal.new", None)
        left[f"out.{form}.journal"] = whole[f"out.{form}.journal"]
        assert left == whole
    assert last > 2 * len(QUERIES)


def test_a_job_killed_again_and_again_never_loses_a_result(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    for _ in range(100):
        file = open_file(folder)
        done.append(file.progress.done)
        with monkeypatch.context() as patch:
            dying(patch, 4)
            try:
                run(file)
                break
            except Killed:
                pass
    assert done == sorted(done)
    assert (folder / "out.csv").read_bytes().count(b"\n") == 1 + len(QUERIES)


def test_nothing_is_asked_again_where_everything_is_done(folder: Path) -> None:
    run(open_file(folder))
    before = content(folder)
    file = open_file(folder)
    assert list(file.rest(iter(QUERIES))) == []
    assert file.is_whole
    assert content(folder) == before


@pytest.mark.parametrize("part_size", [None, 2, 3])
@pytest.mark.parametrize("form", ["csv", "html"])
def test_more_queries_are_gone_on_with(
    tmp_path: Path, folder: Path, form: str, part_size: int | None
) -> None:
    for end in (1, 2, 4, 5):
        run(open_file(folder, form, part_size), QUERIES[:end])
    (tmp_path / "whole").mkdir()
    run(open_file(tmp_path / "whole", form, part_size))
    assert content(folder) == content(tmp_path / "whole")


def test_other_settings_are_refused(folder: Path) -> None:
    run(open_file(folder))
    before = content(folder)
    with pytest.raises(
        ValueError, match=r"n_best is 2, but .*csv.journal holds predictions with 1"
    ):
        open_file(folder, settings={"model": "retro", "n_best": 2})
    with pytest.raises(ValueError, match="holds something else than such predictions"):
        open_file(folder, settings={"model": "retro"})
    open_file(folder, settings={"model": "./retro", "n_best": 1})  # a name decides nothing
    assert content(folder) == before


@pytest.mark.parametrize("changed", [0, 2, 4])
def test_other_queries_are_refused(folder: Path, changed: int) -> None:
    run(open_file(folder))
    other = [*QUERIES[:changed], Query("CCC"), *QUERIES[changed + 1 :]]
    for queries in (other, QUERIES[:changed], [Query("CO", "b"), *QUERIES[1:]]):
        with pytest.raises(ValueError, match="predictions of other queries: of the first 5 some"):
            run(open_file(folder), queries)


def test_a_file_that_is_there_is_not_overwritten_unasked(folder: Path) -> None:
    (folder / "out.csv").write_text("yesterday's\n")
    with pytest.raises(ValueError, match=r"out.csv is there already: --overwrite begins anew"):
        open_file(folder)
    (folder / "out-00001.csv").write_text("yesterday's\n")
    with pytest.raises(ValueError, match=r"out-00001.csv is there already"):
        open_file(folder, part_size=2)
    file = open_file(folder, overwrite=True)
    writing = file.write(answers(file.rest(iter(QUERIES))))
    next(writing)
    assert (folder / "out.csv").read_text() == "yesterday's\n"
    list(writing)
    assert (folder / "out.csv").read_text().startswith("id,")


def test_overwriting_leaves_no_part_of_what_was_there(folder: Path) -> None:
    run(open_file(folder, part_size=1))
    run(open_file(folder, part_size=2, overwrite=True))
    assert [name for name in content(folder) if "-" in name] == [
        *("out-00001.csv", "out-00002.csv", "out-00003.csv")
    ]


def test_results_that_are_gone_are_made_again(folder: Path) -> None:
    run(open_file(folder))
    (folder / "out.csv").unlink()
    assert run(open_file(folder)) == [1, 2, 3, 4, 5]


def test_a_file_that_was_changed_is_refused(folder: Path) -> None:
    run(open_file(folder))
    with (folder / "out.csv").open("a") as stream:
        stream.write("more\n")
    with pytest.raises(ValueError, match=r"out.csv is not what .*journal says: it has \d+ bytes"):
        open_file(folder)


def test_a_place_where_no_file_can_be(folder: Path) -> None:
    (folder / "out.csv").mkdir()
    with pytest.raises(IsADirectoryError):
        open_file(folder)
    with pytest.raises(FileNotFoundError, match=r"absent/out.csv"):
        open_file(folder / "absent")
    with pytest.raises(ValueError, match="part_size is 0: expected at least 1"):
        open_file(folder, part_size=0)


def test_a_full_disk_names_the_file() -> None:
    assert is_stream("/dev/full")
    stream = ResultStream("/dev/full", FORMATS["csv"], CONTEXT)
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        list(stream.write(answers(QUERIES)))
