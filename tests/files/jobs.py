"""A job of five queries that writes a file of answers."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from molspec.files import FORMATS, Answer, OutputContext, Query, ResultFile
from molspec.prediction.results import Prediction, Result

QUERIES = [Query("CO", "a"), Query("X", "b"), Query("CN"), Query("CC", "ü"), Query("CO", "a")]
CONTEXT = OutputContext("retro", "retro")
SETTINGS = {"model": "retro", "n_best": 1}


def answers(queries: Iterable[Query], done: int = 0) -> Iterator[Answer]:
    for number, query in enumerate(queries, start=done + 1):
        result = Result(query.smiles, (Prediction(query.smiles, -0.5 * number),))
        if query.smiles == "X":
            result = Result("X", error="it has an X")
        yield Answer(number, query, result)


def open_file(
    folder: Path, form: str = "csv", settings: dict[str, Any] = SETTINGS, overwrite: bool = False
) -> ResultFile:
    folder.mkdir(exist_ok=True)
    path = folder / f"out.{form}"
    return ResultFile(path, FORMATS[form], CONTEXT, settings, overwrite)


def run(file: ResultFile, queries: list[Query] = QUERIES) -> list[int]:
    """Writes the remaining answers and returns their numbers."""
    rest = file.rest(iter(queries))
    return [answer.number for answer in file.write(answers(rest, file.progress.done))]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
