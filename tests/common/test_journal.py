"""The journal of a job: its settings and how it is read; the jobs' tests kill them."""

import json
import os
from io import BufferedReader
from pathlib import Path
from threading import Lock

import pytest

from molspec.common.journal import Journal, Kind, open_unlinked
from molspec.drafting import LookAhead, ModelDraft
from molspec.prediction.options import PredictOptions
from tests import refused, tiny

_NUMBERS = Kind[int]("numbers", int, int)


def test_one_job_writes_a_journal_and_no_other_program(tmp_path: Path) -> None:
    path = tmp_path / "journal"

    def journal() -> Journal[int]:
        return Journal(path, {"a": 1}, _NUMBERS)

    first, second = journal(), journal()
    records = first.record([1, 2, 3])
    next(records)
    refused(OSError, "journal", journal)
    refused(OSError, "journal", list, second.record([1]))
    assert list(records) == [2, 3]
    refused(OSError, "journal", list, second.record([1]))
    assert list(journal().records()) == [1, 2, 3]
    for change in (Path.unlink, lambda path: path.write_bytes(b"")):
        records = journal().record([4, 5])
        next(records)
        change(path)
        refused(OSError, "journal", list, records)
    path.write_bytes(b'{"a": 1}\n')
    again = journal()
    path.unlink()
    refused(OSError, "journal", list, again.record([6]))  # would begin with zeros


def test_a_journal_resumes_from_any_byte(tmp_path: Path) -> None:
    path, numbers = tmp_path / "journal", [3, 14, 159]
    list(Journal(path, {"a": 1}, _NUMBERS).record(numbers))
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        journal, done = Journal(path, {"a": 1}, _NUMBERS), max(whole[:cut].count(b"\n") - 1, 0)
        assert list(journal.records()) == numbers[:done]
        assert journal.last() == (numbers[done - 1] if done else None)
        assert list(journal.record(numbers[done:])) == numbers[done:]
        assert path.read_bytes() == whole


@pytest.mark.parametrize("content", ["CCO\n", "[1]\n", '{"b": 1}\n', "CCO", "\n", "\x00\x00"])
def test_a_foreign_file_is_refused_and_left_unchanged(tmp_path: Path, content: str) -> None:
    (tmp_path / "other").write_text(content)
    refused("other holds something else", Journal, tmp_path / "other", {"a": 1}, _NUMBERS)
    assert (tmp_path / "other").read_text() == content


def test_a_damaged_line_is_refused_by_its_number(tmp_path: Path) -> None:
    for damaged in ("\x00" * 10, "{}", "[1"):
        (tmp_path / "journal").write_text(f'{{"a": 1}}\n1\n{damaged}\n2\n')
        journal = Journal(tmp_path / "journal", {"a": 1}, _NUMBERS)
        refused("journal, line 3: no record", list, journal.records())


def test_settings_do_not_copy_a_drafter() -> None:
    class OwnDrafter:
        def __init__(self) -> None:
            self.lock = Lock()  # which cannot be copied

        def start(self, row: int, source_ids: list[int]) -> None: ...

        def propose(self, row: int, prefix_ids: list[int]) -> None: ...

        def release(self, row: int) -> None: ...

    options = PredictOptions(drafter=OwnDrafter())  # type: ignore[arg-type]
    settings = tiny.config(options).settings("product")
    assert settings["drafter"] == {"kind": "OwnDrafter"}
    small = ModelDraft(Path("small"), drafter=OwnDrafter())  # type: ignore[arg-type]
    for drafter in (small, LookAhead(3, drafter=small)):
        options = PredictOptions(n_best=2, drafter=drafter)
        text = json.dumps(tiny.config(options).settings("product")["drafter"])
        assert '{"kind": "OwnDrafter"}' in text
        assert '"kind": "ModelDraft", "model": "small"' in text


def test_a_file_is_read_in_blocks(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"{}\n")
    with open_unlinked(tmp_path / "journal", "rb") as stream:
        assert isinstance(stream, BufferedReader)


def test_a_lock_ends_with_its_job_though_a_worker_lives(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    records = Journal(path, {"a": 1}, _NUMBERS).record([1, 2])
    assert next(records) == 1
    ready, done = os.pipe(), os.pipe()
    if not (worker := os.fork()):
        os.write(ready[1], b".")
        os.read(done[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        refused(OSError, "journal", Journal, path, {"a": 1}, _NUMBERS)
        records.close()
        assert list(Journal(path, {"a": 1}, _NUMBERS).records()) == [1]
    finally:
        os.write(done[1], b".")
        os.waitpid(worker, 0)
        for end in (*ready, *done):
            os.close(end)
