"""Tokens of a vocabulary that are no SMILES, beside the SMILES of a query."""

import pytest

from molspec.prediction.cache import AnswerCache
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.queries import QueryReader
from molspec.text import Vocabulary
from tests import refused, tiny

MARKS = ("<RX_3>", "<RX_30>", "|", "[v4]", "[u2]")
VOCABULARY = Vocabulary((*tiny.TOKENS, *MARKS), unk_id=3)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(tiny.checkpoint(vocabulary=VOCABULARY))


@pytest.fixture
def reader(model: Model) -> QueryReader:
    return model.reader


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("<RX_3>OCC", "<RX_3> O C C"),
        ("<RX_30> OCC", "<RX_30> O C C"),
        ("<RX_3> O C C", "<RX_3> O C C"),
        (" <RX_3>  <RX_30>  OCC ", "<RX_3> <RX_30> O C C"),
        ("OCC[v4][u2]", "O C C [v4] [u2]"),
        ("O C C | [v4] [u2]", "O C C | [v4] [u2]"),
        ("[v4]OCC", "[v4] O C C"),
        ("OCC", "O C C"),
    ],
)
def test_a_query_is_read_as_the_models_own_words(
    reader: QueryReader, query: str, words: str
) -> None:
    source = reader.source(query)
    assert source.token_ids == [VOCABULARY.tokens.index(word) for word in words.split()]


def test_marks_stay_where_the_molecule_is_respelt(reader: QueryReader) -> None:
    def written(query: str) -> str:
        return VOCABULARY.decode(reader.source(query, canonical=True).token_ids)

    assert written("<RX_3> OCC | [v4]") == "<RX_3>CCO|[v4]"
    views = reader.views("<RX_3> OCC [v4]", True, 3)
    assert [VOCABULARY.decode(view.token_ids) for view in views] == [
        "<RX_3>CCO[v4]",
        *(f"<RX_3>{other}[v4]" for other in ("OCC", "C(C)O")),
    ]


def test_marks_decide_the_answer(model: Model) -> None:
    queries = ["CCO", "<RX_3>CCO", "<RX_30> CCO", "CCO[v4]"]
    results = model.predict(queries, max_length=20)
    assert len({each.predictions[0].log_prob for each in results}) == len(queries)
    options = PredictOptions(canonical_queries=True, max_length=20)
    stored = AnswerCache().predict(model, queries, options)
    assert len({each.predictions[0].log_prob for each in stored}) == len(queries)


@pytest.mark.parametrize("query", ["<RX_3>", "<RX_3>C(", "C[v4]C", "<RX_4>CCO", "<RX_3>" * 300])
def test_marks_without_a_molecule_are_refused(model: Model, query: str) -> None:
    (result,) = model.predict([query])
    assert result.error is not None


def test_pieces_of_characters_are_read_as_such() -> None:
    characters = Vocabulary(("<pad>", "<bos>", "<eos>", *"Ccln[H]@1=O"))
    for smiles in ("CCl", "c1c[nH]cc1", "C[C@@H]=O"):
        assert [characters.tokens[index] for index in characters.encode(smiles)] == list(smiles)
    refused("'N'", characters.encode, "N")
