"""Files of jobs and planners: answer caches, partial outputs, stocks."""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from molspec.planners.stock import read_stock
from molspec.prediction.cache import AnswerCache
from tests import tiny
from tests.files.jobs import QUERIES, answers, content, open_file, run
from tests.fuzz.draw import Draw

_FOLDER = TemporaryDirectory()
_PATH = Path(_FOLDER.name)
_MODEL = tiny.model()
_QUERIES = ["CO", "CC", "CCN", "C1CC1"]


def _undamaged_cache() -> tuple[list[object], bytes]:
    path = _PATH / "plain.cache"
    cache = AnswerCache(path=path)
    found = [result.predictions for result in cache.predict(_MODEL, _QUERIES)]
    cache.close()  # merges the write-ahead log
    return [*found], path.read_bytes()


_ANSWERS, _CACHE = _undamaged_cache()


def _partial_files(count: int) -> dict[str, bytes]:
    """Files of a job that is stopped after `count` answers."""
    with TemporaryDirectory() as folder:
        job = open_file(Path(folder))
        for answer in job.write(answers(job.rest(iter(QUERIES)))):
            if answer.number == count:
                break
        return content(Path(folder))


_PARTIAL = [_partial_files(count) for count in range(1, len(QUERIES) + 1)]
_COMPLETE = _partial_files(len(QUERIES) + 1)["out.csv"]


def outputs(draw: Draw) -> None:
    """A job resumed from a damaged journal writes the same bytes, or its error names a file.

    Of results only the size is checked: bytes that another program changes in them stay.
    """
    files = dict(draw.choice(_PARTIAL))
    name = draw.choice(list(files))
    files[name] = draw.damaged(files[name])
    with TemporaryDirectory() as folder:
        for file, file_bytes in files.items():
            (Path(folder) / file).write_bytes(file_bytes)
        try:
            run(open_file(Path(folder)))
        except (ValueError, OSError) as error:
            assert folder in str(error)
        else:
            written = (Path(folder) / "out.csv").read_bytes()
            assert len(written) == len(_COMPLETE)
            assert written == _COMPLETE or not name.endswith(".journal")


def caches(draw: Draw) -> None:
    """A damaged cache gives the model's answers, or an error that names the cache."""
    path = _PATH / "damaged.cache"
    for file in AnswerCache.files(path):
        file.unlink(missing_ok=True)
    path.write_bytes(draw.damaged(_CACHE))
    cache = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the damage
            cache = AnswerCache(path=path)
            found = [result.predictions for result in cache.predict(_MODEL, _QUERIES)]
    except (ValueError, OSError) as error:
        assert str(path) in str(error)
    else:
        assert found == _ANSWERS
    finally:
        if cache is not None:
            cache.close()


def stocks(draw: Draw) -> None:
    """A stock of any bytes gives molecules, or an error that names the file."""
    path = _PATH / f"stock{draw.choice(('.smi', '.csv', '.tsv', '.sdf', '.smi.gz', '.csv.xz'))}"
    if draw.below(2):
        lines = draw.some(6, lambda: draw.text(30))
        path.write_bytes(
            "\n".join(["SMILES,Name", "CCO,ethanol", *lines]).encode("utf-8", "replace")
        )
    else:
        path.write_bytes(draw.rest())
    try:
        stock = read_stock(path)
    except (ValueError, OSError) as error:
        assert str(path) in str(error)
    else:
        assert stock
        assert stock.entries >= len(stock) + stock.bad_entries
