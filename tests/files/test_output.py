"""Files of results: complete, killed at any write, resumed, and refused."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import RawIOBase
from itertools import count, islice, product
from pathlib import Path
from typing import Any

import pytest

from molspec.common import journal
from molspec.files import FORMATS, Answer, Query, ResultFile, check_apart
from tests import refused
from tests.files.jobs import CONTEXT, QUERIES, SETTINGS, answers, content, open_file, run

OTHER = {"model": "retro", "n_best": 2}


class Killed(BaseException):
    """Stands for a kill: code that handles errors does not catch it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def test_results_and_journal_are_written_side_by_side(folder: Path) -> None:
    file = open_file(folder)
    assert run(file) == [1, 2, 3, 4, 5]
    assert (file.progress.done, file.progress.failed, file.is_whole) == (5, 1, True)
    rows = (folder / "out.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows] == ["id", "a", "b", "3", "ü", "a"]
    settings, progress = (folder / "out.csv.journal").read_text().splitlines()
    assert json.loads(settings) == SETTINGS
    assert json.loads(progress)["done"] == 5
    assert sorted(content(folder)) == ["out.csv", "out.csv.journal"]


def begun(folder: Path, overwrite: bool = False, count: int = 1) -> Iterator[Answer]:
    """A job after its first answers, which goes on or is left."""
    file = open_file(folder, overwrite=overwrite)
    written = file.write(answers(file.rest(iter(QUERIES))))
    assert len(list(islice(written, count))) == count
    return written


def killed(last: int, folder: Path, **options: Any) -> bool:
    """Kills a job at call `last` of writing and renaming, a write after half of its bytes.

    False if it ends before.
    """
    calls = count()
    write, replace = journal.write_whole, Path.replace

    def write_or_die(stream: RawIOBase, data: bytes, name: str) -> None:
        if next(calls) >= last:
            write(stream, data[: len(data) // 2], name)
            raise Killed
        write(stream, data, name)

    def replace_or_die(self: Path, target: Path) -> Path:
        if next(calls) >= last:
            raise Killed
        return replace(self, target)

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(journal, "write_whole", write_or_die)
        patch.setattr(Path, "replace", replace_or_die)
        run(open_file(folder, **options))
        return False
    return True


@pytest.mark.parametrize("form", ["csv", "html"])
def test_a_job_killed_at_any_write_ends_with_the_same_bytes(tmp_path: Path, form: str) -> None:
    run(open_file(tmp_path / "whole", form))
    expected = content(tmp_path / "whole")
    for last in count():
        folder = tmp_path / str(last)
        if not killed(last, folder, form=form):
            break
        for name, text in content(folder).items():
            if "journal" not in name and "unfinished" not in name:
                assert text == expected[name]  # files under their final names are complete
        resumed = open_file(folder, form)
        if resumed.progress.done < len(QUERIES) or not resumed.is_whole:
            done = resumed.progress.done
            assert run(resumed) == list(range(done + 1, len(QUERIES) + 1))
        final = content(folder)
        final.pop(f"out.{form}.journal.new", None)
        final[f"out.{form}.journal"] = expected[f"out.{form}.journal"]
        assert final == expected
    assert last > 2 * len(QUERIES)


@pytest.mark.parametrize("form", ["csv", "html"])
def test_finished_job_resumes_with_further_queries(tmp_path: Path, folder: Path, form: str) -> None:
    for end in (1, 2, 4, 5):
        # Another name of the same model is accepted.
        settings = {**SETTINGS, "model": "./retro"} if end == 2 else SETTINGS
        run(open_file(folder, form, settings), QUERIES[:end])
    refused("n_best is 2", open_file, folder, form, OTHER)
    run(open_file(tmp_path / "whole", form))
    assert content(folder) == content(tmp_path / "whole")


def test_an_answer_that_cannot_be_written_fails_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def render(answer: Answer, *rest: Any) -> str:
        if answer.number == 3 and not answer.error:
            raise RuntimeError("it has no plane")
        return written(answer, *rest)

    written = FORMATS["csv"].render
    monkeypatch.setitem(FORMATS, "csv", replace(FORMATS["csv"], render=render))
    file = open_file(folder)
    assert run(file) == [1, 2, 3, 4, 5]
    assert (file.progress.failed, file.is_whole) == (2, True)
    rows = (folder / "out.csv").read_text(encoding="utf-8").splitlines()
    assert [each.endswith("RuntimeError: it has no plane") for each in rows[1:]] == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("changed", [0, 2, 4])
def test_other_queries_are_refused(folder: Path, changed: int) -> None:
    run(open_file(folder))
    other = [*QUERIES[:changed], Query("CCC"), *QUERIES[changed + 1 :]]
    for queries in (other, QUERIES[:changed], [Query("CO", "b"), *QUERIES[1:]]):
        refused("predictions of other queries", run, open_file(folder), queries)


def test_a_query_that_its_answer_changes_is_still_the_one_that_was_read(folder: Path) -> None:
    file = open_file(folder)
    refusal = (
        replace(each, query=replace(each.query, error="refused"))
        for each in answers(file.rest(iter(QUERIES[:2])))
    )
    assert len(list(file.write(refusal))) == 2
    assert run(open_file(folder)) == [3, 4, 5]


def test_existing_file_is_overwritten_only_on_request(folder: Path) -> None:
    output = folder / "out.csv"
    output.write_text("yesterday's\n")
    refused("out.csv is there already: --overwrite begins anew", open_file, folder)
    for end in ("finished", "left"):
        written = begun(folder, overwrite=True)
        assert not output.read_text().startswith("id,")
        if end == "finished":
            list(written)
            assert output.read_text().startswith("id,")
            output.write_text("yesterday's\n")
    written.close()
    assert run(open_file(folder)) == [2, 3, 4, 5]
    assert output.read_text().startswith("id,")
    begun(folder, overwrite=True).close()
    output.write_text("foreign\n")
    refused(FileExistsError, "out.csv is there", open_file, folder)
    assert output.read_text() == "foreign\n"


def test_missing_or_changed_results_are_noticed(folder: Path) -> None:
    begun(folder).close()
    unfinished, output = folder / "out.csv.unfinished", folder / "out.csv"
    whole = unfinished.read_bytes()
    os.truncate(unfinished, len(whole) - 1)
    refused(r"unfinished is not what .*journal says: it has \d+ bytes", open_file, folder)
    unfinished.write_bytes(whole)
    assert run(open_file(folder)) == [2, 3, 4, 5]
    whole = output.read_bytes()
    for other in (whole[:-1], whole + b"x"):
        output.write_bytes(other)
        refused(r"out.csv is not what .*journal says: it has \d+ bytes", open_file, folder)
    output.unlink()
    assert run(open_file(folder)) == [1, 2, 3, 4, 5]


def test_job_does_not_overwrite_its_inputs(folder: Path) -> None:
    """The input has the name of the output or of a file beside it, or is a link."""
    names = ("out.csv", "out.csv.unfinished", "out.csv.journal", "out.csv.journal.new")
    for number, name in enumerate(names):
        job_folder = folder / str(number)
        job_folder.mkdir()
        source = job_folder / name
        source.write_text("CO a\n")
        (job_folder / "linked.smi").symlink_to(source)
        (job_folder / "also.smi").hardlink_to(source)
        for input_path in (source, job_folder / "linked.smi", job_folder / "also.smi", job_folder):
            for overwrite in (False, True):
                reads = {"--input": input_path, "--stock": None}
                job = job_folder / "out.csv", FORMATS["csv"], CONTEXT, SETTINGS, overwrite, reads
                refused(f"{name}, which it reads as --input", ResultFile, *job)
        assert source.read_text() == "CO a\n"
    refused("standard output", check_apart, {"--input": source}, [os.open(source, os.O_RDONLY)])
    # Not a file: it may be input and output.
    check_apart({"--input": "/dev/null"}, [Path("/dev/null")])


def test_a_file_made_during_the_job_is_not_replaced(folder: Path) -> None:
    written = begun(folder)
    foreign = folder / "out.csv"
    foreign.write_text("foreign\n")
    refused(FileExistsError, "out.csv is there", list, written)
    refused(FileExistsError, "out.csv is there", open_file, folder)
    assert foreign.read_text() == "foreign\n"
    foreign.unlink()
    assert run(open_file(folder)) == []
    assert foreign.read_text().startswith("id,")


UNFINISHED = product(["out.csv.unfinished"], ["cut", "replaced", "removed"], [0, 3])


@pytest.mark.parametrize(("name", "fault", "left"), [("out.csv.journal", "cut", 3), *UNFINISHED])
def test_a_file_that_another_program_changes_is_an_error(
    folder: Path, name: str, fault: str, left: int
) -> None:
    written = begun(folder, count=len(QUERIES) - left)
    if fault == "cut":
        (folder / name).write_bytes(b"")
    else:
        (folder / name).unlink()
    if fault == "replaced":
        (folder / name).write_text("foreign\n")
    refused(OSError, name, list, written)
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_second_of_two_jobs_is_refused(folder: Path, overwrite: bool) -> None:
    second = open_file(folder, overwrite=overwrite)
    written = begun(folder, overwrite)
    refused(OSError, "out.csv.journal", run, second)
    third = open_file if not overwrite else lambda *a: run(open_file(*a, overwrite=True))
    refused(OSError, "out.csv.journal", third, folder)
    list(written)
    refused(OSError, "out.csv.journal", run, second)  # it has not read what is there now
    whole = content(folder)
    assert run(open_file(folder)) == []
    assert content(folder) == whole
    assert b"".join(whole.values()).count(b"\n") == 6 + 2


def test_unfinished_file_without_a_journal_is_foreign(folder: Path) -> None:
    (folder / "out.csv.unfinished").write_text("foreign\n")
    refused("out.csv.unfinished is there already", open_file, folder)
    assert content(folder) == {"out.csv.unfinished": b"foreign\n"}


def test_a_killed_job_that_overwrites_another_resumes(tmp_path: Path) -> None:
    run(open_file(tmp_path / "whole", settings=OTHER))
    for last in count():
        folder = tmp_path / str(last)
        run(open_file(folder), QUERIES[:2])
        (folder / "out.csv.unfinished").write_text("left")
        if not killed(last, folder, settings=OTHER, overwrite=True):
            break
        settings = (folder / "out.csv.journal").read_text().splitlines()[0]
        run(open_file(folder, settings=OTHER, overwrite=json.loads(settings) != OTHER))
        final = content(folder)
        final.pop("out.csv.journal.new", None)
        assert final == content(tmp_path / "whole")
    assert last > 2 * len(QUERIES)


def test_output_link_is_followed_and_stays_a_link(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "out.csv").symlink_to(folder / "data" / "there.csv")
    run(open_file(folder), QUERIES[:2])
    run(open_file(folder))
    assert (folder / "out.csv").is_symlink()
    assert sorted(content(folder / "data")) == ["there.csv", "there.csv.journal"]
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    with pytest.raises(OSError, match="symbolic links"):
        ResultFile(folder / "loop.csv", FORMATS["csv"], CONTEXT, SETTINGS)


@pytest.mark.parametrize("ending", ["unfinished", "journal", "journal.new"])
def test_links_beside_the_output_are_not_followed(folder: Path, ending: str) -> None:
    other = folder / "other.txt"
    other.write_text("")
    (folder / f"out.csv.{ending}").symlink_to(other)
    for overwrite in (False, True):
        with pytest.raises((OSError, ValueError), match=r"out.csv.\w+"):
            run(open_file(folder, overwrite=overwrite))
    assert other.read_text() == ""
    expected = {"other.txt", f"out.csv.{ending}"} & {path.name for path in folder.iterdir()}
    assert {path.name for path in folder.iterdir()} == expected, "nothing is left of a refused job"


@pytest.mark.parametrize("is_killed", [True, False])
def test_flipped_bits_of_the_journal_are_detected(folder: Path, is_killed: bool) -> None:
    """They are in its last record."""
    assert killed(7 if is_killed else 10**9, folder, form="html") == is_killed
    journal_path = folder / "out.html.journal"
    assert open_file(folder, "html").progress.done == (2 if is_killed else 5)
    lines = journal_path.read_bytes().splitlines(keepends=True)
    last = lines[2] if is_killed else lines[1]
    head = b"".join(lines[:2] if is_killed else lines[:1])
    for at in range(len(last) - 1):
        journal_path.write_bytes(head + last[:at] + bytes([last[at] ^ 1]) + last[at + 1 :])
        refused("no record|is not what|is there already", open_file, folder, "html")
    values = json.loads(last)
    for name, value in (("failed", []), ("end", 1), ("done", "5"), ("refused", 9), ("other", 1)):
        journal_path.write_bytes(head + json.dumps({**values, name: value}).encode() + b"\n")
        refused(r"out.html.journal, line \d: no record", open_file, folder, "html")


def test_a_query_has_the_text_by_which_jobs_resume() -> None:
    """Also that of jobs that were begun before a field came."""
    query = Query("CCO.Cl", "one", columns=("7",), part="CCO", note="decoded as CCO")
    expected = "Query(smiles='CCO.Cl', name='one', error=None, target='', columns=('7',))"
    assert repr(query) == expected
