import json

import pytest

from molspec.decoding import QueryStatistics
from molspec.evaluation import Pair, Record
from molspec.prediction.results import Prediction, Result
from tests.evaluation.fake import predictions


def judge(target: str, *answers: str) -> Record:
    return Record.of(Pair("C", target), Result("C", predictions(*answers)), 0.5)


@pytest.mark.parametrize(
    ("target", "answers", "found_at"),
    [
        ("CC(=O)O.OCC", ("CCO.OC(C)=O",), 0),  # written from other atoms, in another order
        ("[CH3:1][OH:2]", ("CN", "OC"), 1),  # atom maps are ignored
        ("C[C@H](N)O", ("C[C@@H](N)O", "[C@@H](C)(N)O"), 1),  # stereochemistry is compared
        ("CCO", ("CCO.CCO", "CC"), None),  # a part of an answer does not count
        ("CCO", ("~CCO", "CCO"), 1),  # unfinished
        ("CCO", ("CCO", "OCC"), 0),
        ("CCO", (), None),
        ("C1CC", ("C1CC",), None),  # nothing equals an invalid target
        ("", ("",), None),
    ],
)
def test_found_at_is_the_index_of_the_first_correct_answer(
    target: str, answers: tuple[str, ...], found_at: int | None
) -> None:
    assert judge(target, *answers).found_at == found_at


def test_record_round_trips_through_json() -> None:
    statistics = QueryStatistics(1, 2, 3, 4, 5, 0.1 + 0.2)
    answers = (Prediction("OC", -0.1 - 0.2), Prediction("O(", -3.0, False))
    record = Record.of(Pair("C", "[OH:1]C"), Result("C", answers, None, statistics), 1 / 3)
    assert (record.query, record.target, record.target_canonical) == ("C", "[OH:1]C", "CO")
    assert [(a.smiles, a.canonical) for a in record.predictions] == [("OC", "CO"), ("O(", None)]
    assert record.to_json()["rank"] == 1
    failed = Record.of(Pair("X", "CO"), Result("X", error="it has an X"), 0.0)
    assert (failed.error, failed.predictions, failed.found_at) == ("it has an X", (), None)
    for each in (record, failed):
        assert Record.from_json(json.loads(json.dumps(each.to_json()))) == each
