"""External drafters: how they are called, and what is refused."""

import pytest

from molspec.drafting import Drafter, TreeDraft, WindowDrafts
from molspec.drafting.native import NativeDrafters
from molspec.prediction.model import Model
from tests import tiny
from tests.drafting.drafters import Recorded
from tests.search.plain import answers

MAX_LENGTH = 20
QUERIES = tiny.QUERIES[:10]


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.drafting_model()


def recorded(model: Model, seed: int = 1) -> Recorded:
    known = {}
    for query, result in zip(QUERIES, model.predict(QUERIES, max_length=MAX_LENGTH), strict=True):
        text = result.predictions[0].smiles
        known[tuple(tiny.VOCABULARY.encode(query))] = tiny.VOCABULARY.encode(text) if text else []
    return Recorded(known, seed)


def test_a_drafter_is_called_once_a_round(model: Model) -> None:
    for batch_size in (1, 4):
        drafter = recorded(model)
        model.predict(QUERIES, drafter=drafter, max_length=MAX_LENGTH, batch_size=batch_size)
        assert max(drafter.batches) == batch_size


@pytest.mark.parametrize("beam_size", [1, 4])
def test_sbs_treats_external_drafter_like_native_one(model: Model, beam_size: int) -> None:
    windows = WindowDrafts(4, 6, smart=True)
    shared = {"n_best": beam_size, "beam": "sbs", "max_length": MAX_LENGTH}
    native = model.predict(QUERIES, drafter=windows, **shared)
    drafter = NativeDrafters(windows, model.context.guess)
    external = model.predict(QUERIES, drafter=drafter, **shared)
    assert list(map(answers, external)) == list(map(answers, native))
    assert external.statistics.nodes == native.statistics.nodes


def test_refuses_invalid_drafters(model: Model) -> None:
    with pytest.raises(ValueError, match=r"^drafter is the class Recorded: expected an object"):
        model.predict(["CCO"], drafter=Recorded)
    assert isinstance(recorded(model), Drafter)
    assert not isinstance(TreeDraft(), Drafter)
