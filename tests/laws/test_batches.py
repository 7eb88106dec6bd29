"""Batches, their order, threads and processes change no answer, to the bit."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import molspec
from molspec import Decoder, PredictOptions
from tests.laws import cases
from tests.laws.conftest import Answers

SEARCHES = {**cases.SEARCHES, **cases.DECIDED}
#: Queries that cannot be answered, beside the others.
BAD = ("CC(C", "")


def known(answers: Answers, model: str, search: str) -> dict[str, object]:
    return dict(zip(answers.model(model).queries, answers.plain(model, search), strict=True))


@pytest.mark.parametrize(
    ("model", "search"),
    [
        *(("float32", search) for search in SEARCHES),
        *((model, search) for model in ("bfloat16", "int8", "ensemble") for search in cases.FEW),
    ],
)
def test_batches_order_and_threads_change_no_answer(
    answers: Answers, model: str, search: str
) -> None:
    expected = known(answers, model, search)
    queries = [*cases.QUERIES * 2, *BAD]  # equal ones too, also side by side
    threads = (1, 1, 2) if SEARCHES[search].get("augment_below") is None else (1, 2, 1)
    for batch_size, count in zip((3, 7, 32), threads, strict=True):
        random.Random(batch_size).shuffle(queries)
        options = answers.options(search, batch_size=batch_size)
        molspec.set_num_threads(count)
        try:
            found, _ = answers.model(model).answers(queries, **options)
        finally:
            molspec.set_num_threads(1)
        for query, result in zip(queries, found, strict=True):
            assert result.query == query
            if query in BAD:
                assert result.error
            else:
                assert result == expected[query], (query, batch_size, count)


@pytest.mark.parametrize("search", ["greedy", "beam of 3", "samples", "relaxed", "rejection"])
def test_a_batch_of_a_module_changes_no_answer(answers: Answers, search: str) -> None:
    module = answers.model("module")
    for batch_size in (2, 3):
        options = answers.options(search, batch_size=batch_size)
        found, _ = module.answers(module.queries[::-1], **options)
        assert found == answers.plain("module", search)[::-1]


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("model", ["float32", "ensemble"])
def test_requests_of_other_searches_change_no_answer(
    answers: Answers, model: str, batch_size: int
) -> None:
    decoder = Decoder(answers.model(model).model, batch_size)
    searches = SEARCHES if model == "float32" else cases.FEW
    requests = [(query, search) for query in cases.QUERIES for search in searches]
    random.Random(batch_size).shuffle(requests)
    tickets = {
        decoder.submit(query, PredictOptions(**answers.options(search))): (query, search)
        for query, search in requests
    }
    for ticket, result in decoder.finish():
        query, search = tickets[ticket]
        assert result == known(answers, model, search)[query], search


@pytest.mark.parametrize("search", ["greedy", "more spellings"])
@pytest.mark.parametrize("model", ["int8", "ensemble"])
def test_processes_and_callers_change_no_answer(answers: Answers, model: str, search: str) -> None:
    expected = answers.plain(model, search)
    one, options = answers.model(model).model, answers.options(search)

    def decoded(processes: int) -> list[object]:
        made = PredictOptions(**options)
        return list(one.predict_stream(cases.QUERIES, made, processes=processes))

    molspec.set_num_threads(2)
    try:
        assert decoded(2) == expected
        with ThreadPoolExecutor(4) as callers:
            assert list(callers.map(decoded, [1] * 4)) == [expected] * 4
    finally:
        molspec.set_num_threads(1)
