"""Drafts change no answer, to the bit."""

import pytest

from tests.drafting.drafters import Recorded
from tests.laws import cases, conftest

CASES = {
    (model, name): [search for search in cases.SEARCHES if cases.suits(name, search, model)]
    for model in cases.MODELS
    for name in cases.NAMES
}


@pytest.mark.parametrize(("model", "name"), [case for case, searches in CASES.items() if searches])
def test_drafts_change_no_answer(answers: conftest.Answers, model: str, name: str) -> None:
    made, drafted = answers.model(model), 0
    for number, search in enumerate(CASES[model, name], cases.NAMES.index(name)):
        batch_size = (1, 4)[number % 2]
        options = answers.options(search, drafter=name, batch_size=batch_size)
        found, statistics = made.answers(made.queries, **options)
        assert found == answers.plain(model, search), (search, batch_size)
        drafted += statistics.drafted_tokens
        if isinstance(options["drafter"], Recorded):
            assert not options["drafter"].live
    assert drafted > 0
