"""Log-probabilities of tokens are the model's, to the bit, in every search, with every drafter.

Also behind a prefix, whose tokens have theirs too.
"""

from typing import Any

import pytest

from molspec.drafting import LookAhead, WindowDrafts
from molspec.prediction.model import Model
from molspec.prediction.results import Prediction, Results
from tests import tiny
from tests.laws import cases
from tests.search import plain

SHORT = tiny.QUERIES[:-1]
EOS = tiny.VOCABULARY.eos_id
EAGER = LookAhead(node_budget=40, steps=5, min_confidence=0.0)
SEARCHES: tuple[dict[str, Any], ...] = (
    {},
    {"max_length": 3},
    {"drafter": "none"},
    {"drafter": WindowDrafts(draft_length=4, draft_count=5)},
    {"drafter": "heads"},
    {"drafter": "small"},
    {"drafter": "spec"},
    {"verification": "relaxed", "drafter": "small", "beta": 5, "tau": 3.0},
    {"n_best": 4, "beam": "standard", "length_penalty": 0.7},
    {"n_best": 4, "drafter": EAGER},
    {"n_best": 4, "drafter": EAGER, "max_length": 5},
    {"n_best": 3, "drafter": "heads"},
    {"n_best": 4, "finished": "separate", "drafter": EAGER},
    {"n_best": 3, "beam": "sbs", "drafter": WindowDrafts(4, 5, smart=True)},
    {"n_best": 3, "beam": "sbs", "drafter": "small", "max_length": 6},
    {"samples": 6},
    {"samples": 6, "drafter": "small", "top_k": 5, "temperature": 1.3},
    {"samples": 6, "drafter": "small", "verification": "rejection"},
)


@pytest.fixture(scope="module", params=["float32", "bfloat16", "ensemble"])
def model(request: pytest.FixtureRequest) -> Model:
    if request.param == "ensemble":
        return cases.Own("bfloat16", others=tiny.others()).model
    return cases.Own(request.param).model


def predict(model: Model, drafters: dict[str, Any], search: dict[str, Any], **more: Any) -> Results:
    options = {"max_length": 20, **search, **more}
    if make := drafters.get(str(options.get("drafter"))):
        options["drafter"] = make()
    return model.predict(SHORT, **options)


def own_log_probs(next_log_probs: plain.NextLogProbs, answer: Prediction) -> tuple[float, ...]:
    token_ids = tiny.VOCABULARY.encode(answer.smiles) if answer.smiles else []
    token_ids = [*token_ids, *([EOS] if answer.finished else [])]
    bos = tiny.VOCABULARY.bos_id
    return tuple(next_log_probs([bos, *token_ids[:i]])[token] for i, token in enumerate(token_ids))


@pytest.mark.parametrize("prefix", [None, "CC(O"])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_every_token_has_its_log_prob(
    model: Model, drafters: dict[str, Any], search: dict[str, Any], prefix: str | None
) -> None:
    count = len(prefix or "")
    search = {**search, "max_length": search.get("max_length", 20) + count, "target_prefix": prefix}
    results = predict(model, drafters, search, token_log_probs=True)
    for result, without in zip(results, predict(model, drafters, search), strict=True):
        next_log_probs = plain.model_of(model.engine, tiny.VOCABULARY.encode(result.query))
        for answer, same in zip(result.predictions, without.predictions, strict=True):
            assert (answer.smiles, answer.log_prob) == (same.smiles, same.log_prob)
            assert same.token_log_probs is None
            assert answer.token_log_probs == own_log_probs(next_log_probs, answer)
            assert sum(answer.token_log_probs) == answer.log_prob
            if prefix:
                assert answer.smiles.startswith(prefix)
                before = sum(answer.token_log_probs[:count])
                assert answer.log_prob_after_prefix == answer.log_prob - before
    assert all(result.predictions for result in results)
