"""min_length and target_prefix: the searches of a model that can write nothing else there."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from molspec._native import Batch, BeamSpec, ForcedSpec, Hypothesis, SequenceSpec
from molspec.drafting import guess_model
from molspec.prediction.options import PredictOptions
from molspec.prediction.strategy import search_plan
from tests import refused, tiny
from tests.drafting.drafters import ReadsHiddenStates
from tests.search import plain, test_token_log_probs
from tests.search.plain import decode, model_with_ties

EOS, BOS = tiny.VOCABULARY.eos_id, tiny.VOCABULARY.bos_id
PREFIX = "CC(N"
IDS = tiny.VOCABULARY.encode(PREFIX)
#: Searches without drafts, which SBS depends on.
SEARCHES: tuple[dict[str, Any], ...] = (
    {"drafter": "none"},
    {"n_best": 4, "beam": "standard", "length_penalty": 0.7},
    {"n_best": 4, "drafter": test_token_log_probs.EAGER},
    {"n_best": 4, "finished": "separate", "drafter": test_token_log_probs.EAGER},
    {"n_best": 3, "beam": "sbs", "drafter": "none"},
    {"samples": 5, "drafter": "none"},
    {"samples": 5, "drafter": "none", "top_k": 3, "temperature": 1.4},
    {"samples": 5, "drafter": "none", "verification": "rejection"},
)


def constrained(
    next_log_probs: plain.NextLogProbs, prefix: Sequence[int], min_length: int
) -> plain.NextLogProbs:
    """The same model, which gives the tokens that a search may not write no probability."""

    def changed(path: Sequence[int]) -> list[float]:
        row = list(next_log_probs(path))
        if (place := len(path) - 1) < len(prefix):
            return [value if i == prefix[place] else -math.inf for i, value in enumerate(row)]
        if len(path) < min_length:  # BOS is counted as EOS would be
            row[EOS] = -math.inf
        return row

    return changed


def ending_model(seed: int) -> plain.NextLogProbs:
    """A model with ties, whose likeliest token is always EOS, or as likely as it."""
    model = model_with_ties(seed)
    return lambda path: [0.0 if i == EOS else value for i, value in enumerate(model(path))]


def told(found: list[Hypothesis]) -> list[tuple[Any, ...]]:
    return [(h.token_ids, h.log_prob, h.finished, h.token_log_probs) for h in found]


@pytest.mark.parametrize("options", SEARCHES, ids=str)
@pytest.mark.parametrize(("length", "min_length"), [(1, 1), (4, 1), (0, 6), (4, 7)])
def test_answers_are_those_of_a_model_that_writes_nothing_else_there(
    options: dict[str, Any], length: int, min_length: int
) -> None:
    free, made = (
        PredictOptions(**options, min_length=least, token_log_probs=True)
        for least in (1, min_length)
    )
    searches = [search_plan(each, each.configuration, 9).search for each in (free, made)]
    prefix, answers = [5, 4, 8, 5][:length], []
    for seed in range(12):
        model = ending_model(seed)
        found = decode(searches[1], model, prefix)
        answers.append(told(found))
        assert answers[-1] == told(decode(searches[0], constrained(model, prefix, min_length)))
        rows = [model([BOS, *prefix[:i]]) for i in range(length)]
        own = sum(row[token] for row, token in zip(rows, prefix, strict=True))
        assert found
        assert all(each.prefix_log_prob == (own if prefix else None) for each in found)
        assert all(len(each.token_ids) + each.finished >= min_length for each in found)
    assert answers != [told(decode(searches[0], ending_model(seed))) for seed in range(12)]


@pytest.mark.parametrize("least", [(1, 3), (3, 1)])
def test_settings_are_those_of_each_query(least: tuple[int, int]) -> None:
    batch = Batch(2, guess_model(tiny.VOCABULARY, None))
    for row, min_length in enumerate(least):
        options = PredictOptions(
            drafter="none", min_length=min_length, token_log_probs=min_length == 1
        )
        batch.start(row, search_plan(options, options.configuration, 9).search, [4])
    batch.plan()
    (done,) = batch.advance(np.array([ending_model(1)([BOS])] * 2, np.float32))
    assert done.row == least.index(1)
    assert done.hypotheses[0].token_log_probs == [0.0]


def test_a_beam_of_more_places_than_tokens_lists_no_impossible_answer() -> None:
    spec = BeamSpec(beam_size=30, n_best=30, max_length=2, min_length=2, finished_apart=True)
    hypotheses = decode(spec, model_with_ties(1))
    assert hypotheses
    assert all(math.isfinite(each.log_prob) and len(each.token_ids) >= 1 for each in hypotheses)


def test_a_prefix_takes_no_pass_of_its_own() -> None:
    for options in ({}, {"n_best": 3, "beam": "standard"}, {"samples": 2}):
        (result,) = tiny.model().predict(
            ["CCO"], target_prefix=PREFIX, drafter="none", max_length=9, **options
        )
        assert result.statistics.decoder_calls <= 9 - len(IDS)
        assert result.statistics.nodes >= len(IDS)


def test_a_drafter_reads_the_prefix_in_the_first_path() -> None:
    drafter = ReadsHiddenStates()
    tiny.model().predict(["CCO"], target_prefix=PREFIX, drafter=drafter, max_length=8)
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
def test_tokens_that_the_model_cannot_write_are_an_error(value: float, message: str) -> None:
    row = [-1.0] * 5 + [value] + [-1.0] * (tiny.VOCABULARY.size - 6)
    refused(message, decode, undrafted(9), lambda path: row, [4, 5])
    target = message.replace("target_prefix", "the target")
    refused(target, decode, ForcedSpec(max_length=9), lambda path: row)


def test_wrong_prefixes_of_ids_are_refused() -> None:
    batch = Batch(1, guess_model(tiny.VOCABULARY, None))
    for prefix, message in (
        ([4, EOS], f"target_prefix holds EOS {EOS}: expected tokens before it"),
        ([13], "a token of target_prefix is 13: expected 0 to 12"),
        ([4] * 4, "target_prefix has 4 tokens: expected at most 3, fewer than max_length"),
    ):
        refused(f"^{message}$", batch.start, 0, undrafted(4), [4], prefix=prefix)
    message = "^target_prefix is given with a target"
    refused(message, batch.start, 0, ForcedSpec(max_length=9), [4], prefix=[4])
    batch.start(0, undrafted(4), [4], prefix=[4] * 3)  # the row is still free
