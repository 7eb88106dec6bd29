"""target_prefix: the searches of a model that can write nothing else there, in fewer passes."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from molspec._native import Batch, ForcedSpec, Hypothesis, SequenceSpec
from molspec.drafting import guess_model
from molspec.prediction.model import Model
from molspec.prediction.options import PredictOptions
from molspec.prediction.strategy import search_plan
from tests import tiny
from tests.drafting.drafters import ReadsHiddenStates
from tests.search import plain
from tests.search.plain import decode, model_with_ties
from tests.search.test_token_log_probs import EAGER, SEARCHES, drafters, predict

__all__ = ["drafters"]  # a fixture

EOS = tiny.VOCABULARY.eos_id
PREFIX = "CC(N"
IDS = tiny.VOCABULARY.encode(PREFIX)
#: Searches without drafts, which SBS depends on.
UNDRAFTED: tuple[dict[str, Any], ...] = (
    {"drafter": "none"},
    {"drafter": "none", "min_length": 7},
    {"n_best": 4, "beam": "standard", "length_penalty": 0.7},
    {"n_best": 4, "drafter": EAGER},
    {"n_best": 4, "finished": "separate", "drafter": EAGER},
    {"n_best": 3, "beam": "sbs", "drafter": "none"},
    {"samples": 5, "drafter": "none"},
    {"samples": 5, "drafter": "none", "top_k": 3, "temperature": 1.4},
    {"samples": 5, "drafter": "none", "verification": "rejection"},
)


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def model(request: pytest.FixtureRequest) -> Model:
    return Model(tiny.with_heads(), request.param)


def writing_only(next_log_probs: plain.NextLogProbs, prefix: Sequence[int]) -> plain.NextLogProbs:
    """The same model, which gives all other tokens no probability in the prefix."""

    def changed(path: Sequence[int]) -> list[float]:
        row = list(next_log_probs(path))
        if (place := len(path) - 1) >= len(prefix):
            return row
        return [value if i == prefix[place] else -math.inf for i, value in enumerate(row)]

    return changed


def told(found: list[Hypothesis]) -> list[tuple[Any, ...]]:
    return [(h.token_ids, h.log_prob, h.finished, h.token_log_probs) for h in found]


@pytest.mark.parametrize("options", UNDRAFTED, ids=str)
@pytest.mark.parametrize("length", [1, 4])
def test_answers_are_those_of_a_model_that_writes_nothing_else_there(
    options: dict[str, Any], length: int
) -> None:
    made = PredictOptions(**options, token_log_probs=True)
    spec = search_plan(made, made.configuration, 9).search
    prefix = [5, 4, 8, 5][:length]
    for seed in range(12):
        next_log_probs = model_with_ties(seed)
        found = decode(spec, next_log_probs, prefix)
        assert told(found) == told(decode(spec, writing_only(next_log_probs, prefix)))
        bos = tiny.VOCABULARY.bos_id
        rows = [next_log_probs([bos, *prefix[:i]]) for i in range(length)]
        own = sum(row[token] for row, token in zip(rows, prefix, strict=True))
        assert found
        assert all(each.prefix_log_prob == own for each in found)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_every_search_and_drafter_begins_with_it_to_the_bit(
    model: Model, drafters: dict[str, Any], search: dict[str, Any]
) -> None:
    search = {"max_length": 20, **search}
    search["max_length"] += len(IDS)
    for result in predict(model, drafters, search, target_prefix=PREFIX, token_log_probs=True):
        next_log_probs = plain.model_of(model.engine, tiny.VOCABULARY.encode(result.query))
        bos = tiny.VOCABULARY.bos_id
        before = sum(next_log_probs([bos, *IDS[:i]])[token] for i, token in enumerate(IDS))
        assert result.predictions
        for answer in result.predictions:
            assert answer.smiles.startswith(PREFIX)
            assert sum(answer.token_log_probs or ()) == answer.log_prob
            assert answer.log_prob_after_prefix == answer.log_prob - before


def test_it_takes_no_pass_of_its_own(model: Model) -> None:
    for options in ({}, {"n_best": 3, "beam": "standard"}, {"samples": 2}):
        (result,) = model.predict(
            ["CCO"], target_prefix=PREFIX, drafter="none", max_length=9, **options
        )
        assert result.statistics.decoder_calls <= 9 - len(IDS)
        assert result.statistics.nodes >= len(IDS)


def test_a_drafter_reads_it_in_the_first_path(model: Model) -> None:
    drafter = ReadsHiddenStates()
    model.predict(["CCO"], target_prefix=PREFIX, drafter=drafter, max_length=8)
    first, second = drafter.paths[:2]
    assert first.token_ids == IDS
    assert (first.log_prob, first.hidden_state) == (0, None)
    assert second.token_ids[:-1] == IDS
    assert second.hidden_state is not None
    assert second.log_prob < 0


def undrafted(max_length: int) -> SequenceSpec:
    options = PredictOptions(drafter="none")
    spec = search_plan(options, options.configuration, max_length).search
    assert isinstance(spec, SequenceSpec)
    return spec


@pytest.mark.parametrize(
    ("value", "message"),
    [(-math.inf, "^the model gives target_prefix no probability$"), (math.nan, "are not numbers$")],
)
def test_a_prefix_that_the_model_cannot_write_is_an_error(value: float, message: str) -> None:
    row = [-1.0] * 5 + [value] + [-1.0] * (tiny.VOCABULARY.size - 6)
    with pytest.raises(ValueError, match=message):
        decode(undrafted(9), lambda path: row, [4, 5])


def test_wrong_prefixes_of_ids_are_refused() -> None:
    batch = Batch(1, guess_model(tiny.VOCABULARY, None))
    spec = undrafted(4)
    for prefix, message in (
        ([4, EOS], f"target_prefix holds EOS {EOS}: expected tokens before it"),
        ([13], "a token of target_prefix is 13: expected 0 to 12"),
        ([4] * 4, "target_prefix has 4 tokens: expected at most 3, fewer than max_length"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            batch.start(0, spec, [4], prefix=prefix)
    with pytest.raises(ValueError, match=r"^target_prefix is given with a target"):
        batch.start(0, ForcedSpec(max_length=9), [4], prefix=[4])
    batch.start(0, spec, [4], prefix=[4] * 3)  # the row is still free
