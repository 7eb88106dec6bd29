"""Times of real queries by search and batch size: in all, and of the device alone."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from time import perf_counter
from typing import Any

import subject
import without_rdkit
from clock import busy_seconds, spin, wall_seconds
from place import Place, Row

from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.results import Prediction, Results
from molspec.text import smiles as text

Options = dict[str, Any]
#: A model, a search and a batch size.
Case = tuple[str, Options, int]

TREE, PLAIN = {"drafter": "tree"}, {"drafter": "none"}


def standard(n_best: int) -> Options:
    """A beam without drafts."""
    return {"n_best": n_best, "beam": "standard"}


def exact(n_best: int) -> Options:
    """The same answers, with a lookahead."""
    return {"n_best": n_best, "drafter": "tree"}


#: The most wanted first.
_CASES: tuple[Case, ...] = (
    ("product", TREE, 1),
    ("retro", standard(10), 1),
    ("product", PLAIN, 1024),
    ("retro", exact(10), 1),
    ("product", TREE, 32),
    ("product", PLAIN, 128),
    ("product", TREE, 8),
    ("retro", standard(10), 32),
    ("retro", standard(10), 8),
    ("retro", exact(5), 1),
    ("retro", standard(5), 1),
    ("product", PLAIN, 1),
    ("product", PLAIN, 32),
    ("retro", exact(10), 32),
    ("retro", exact(10), 8),
    ("retro", standard(10), 128),
    ("product", PLAIN, 8),
    ("product", TREE, 128),
    ("product", TREE, 1024),
    ("retro", exact(5), 32),
    ("retro", standard(10), 1024),
)
#: Seconds after which no case begins.
_SECONDS = 60
#: Batches in which the host's rounds are timed too.
_LARGEST_ON_HOST = 32


def run(place: Place) -> Iterator[Row]:
    """Time every case in bfloat16, as long as there is time."""
    yield from cases(place, "bfloat16", _CASES[: 2 if place.few else None], _SECONDS)


def cases(
    place: Place, dtype: str, wanted: Sequence[Case], seconds: float = float("inf")
) -> Iterator[Row]:
    """A row for each case; a case that fails ends no other."""
    end = perf_counter() + seconds

    @cache
    def model(name: str) -> Model:
        return place.model(subject.checkpoint(name, place.few)[0], dtype)

    spin(place)
    for name, options, batch_size in wanted:
        row = {"model": name, **options, "batch_size": batch_size}
        if perf_counter() > end:
            yield {**row, "left_out": f"no time is left of {seconds} s"}
            continue
        try:
            for times in _timed(place, model(name), name, options, batch_size):
                yield {**row, "dtype": dtype, **times}
        except Exception as error:
            yield {**row, "ok": False, "error": f"{type(error).__name__}: {error}"[:400]}


def processes(place: Place) -> Iterator[Row]:
    """Queries a second of processes that share the device, once all are at work.

    One process comes last: with it this one uses the device, which it may not before it forks.
    """
    if without_rdkit.replaced():
        setattr(Prediction, "canonical", None)  # noqa: B010 - workers would write it
    few, many = ((2, 2), (1, 2)), ((2, 1024), (4, 1024), (1, 1024))
    for workers, batch_size in few if place.few else many:
        model = place.model(subject.checkpoint("product", place.few)[0], "bfloat16")
        queries = subject.queries("product", place.few, 16 if place.few else 32_768)
        more: Options = {**PLAIN, "batch_size": batch_size, **subject.limits(place.few)}
        options = PredictOptions(canonical_queries=False, **more)
        answers = model.predict_stream(queries, options, processes=workers)
        ends = [perf_counter() for result in answers if not result.error]
        half = len(ends) // 2
        row: Row = {"processes": workers, "batch_size": batch_size, "answers": len(ends)}
        row["queries_a_second"] = (len(ends) - half) / (ends[-1] - ends[half - 1])
        yield {**row, "ok": len(ends) == len(queries)}


def _timed(
    place: Place, model: Model, name: str, options: Options, batch_size: int
) -> Iterator[Row]:
    """Without canonical SMILES, and with them if RDKit is installed."""
    count = max(32, min(4 * batch_size, 4096))
    queries = subject.queries(name, place.few, 2 if place.few else count)
    more = {**options, "batch_size": batch_size, **subject.limits(place.few)}
    run = partial(model.predict, queries, canonical_queries=False, **more)
    rdkit = "missing" if without_rdkit.replaced() else "checks queries"
    yield {"rdkit": rdkit, **_times(place, model, queries, run, batch_size <= _LARGEST_ON_HOST)}
    different = list(dict.fromkeys(queries))
    if without_rdkit.replaced() or len(different) < batch_size:
        return
    run = partial(_canonical, model, different, more)
    yield {"rdkit": "canonical queries and answers", **_times(place, model, different, run, False)}


def _canonical(model: Model, queries: list[str], options: Options) -> Results:
    """Queries and answers as RDKit writes them; it has written none of them before."""
    text._written.cache_clear()
    results = model.predict(queries, canonical_queries=True, **options)
    for result in results:
        for prediction in result.predictions:
            _ = prediction.canonical
    return results


def _times(
    place: Place, model: Model, queries: list[str], run: Callable[[], Results], on_host: bool
) -> Row:
    count, results = len(queries), run()
    encode = model.vocabulary.encode
    best = [result.predictions[0].smiles for result in results]
    row: Row = {
        "queries": count,
        "different_queries": len(set(queries)),
        "tokens_in": sum(len(encode(query)) for query in queries) / count,
        "tokens_out": sum(len(encode(smiles)) for smiles in best) / count,
        "passes_a_query": results.statistics.query_calls / count,
        "milliseconds_a_query": 1e3 * wall_seconds(place, run, 3) / count,
    }
    if place.device == "cuda":
        try:
            row["device_milliseconds_a_query"] = 1e3 * busy_seconds(place, run) / count
        except RuntimeError as error:
            row |= {"ok": False, "error": str(error)}
    if on_host and place.device != "cpu":
        with subject.rounds_on_host():
            row["milliseconds_with_rounds_on_host"] = 1e3 * wall_seconds(place, run, 1) / count
    return row
