"""Drafts change no answer, to the bit."""

import pytest

from tests.drafting.drafters import Recorded
from tests.laws import cases
from tests.laws.conftest import Answers

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.mark.parametrize("name", cases.NAMES)
@pytest.mark.parametrize("model", cases.MODELS)
def test_drafts_change_no_answer(answers: Answers, model: str, name: str) -> None:
    made, drafted = answers.model(model), 0
    searches = [each for each in cases.SEARCHES if cases.suits(name, each, model)]
    for number, search in enumerate(searches, cases.NAMES.index(name)):
        batch_size = (1, 4)[number % 2]
        options = answers.options(search, drafter=name, batch_size=batch_size)
        found, statistics = made.answers(made.queries, **options)
        assert found == answers.plain(model, search), (search, batch_size)
        drafted += statistics.drafted_tokens
        if isinstance(options["drafter"], Recorded):
            assert not options["drafter"].live
    assert drafted > 0 or not searches
