"""`molspec.decode` gives of token ids what `Model.predict` gives of text, with the same work."""

from typing import Any

import pytest
import torch

from molspec import decode
from tests import tiny
from tests.laws import cases, conftest

VOCABULARY = tiny.VOCABULARY
IDS = {"bos_id": VOCABULARY.bos_id, "eos_id": VOCABULARY.eos_id, "pad_id": VOCABULARY.pad_id}
SEARCHES = (
    *("default drafts", "greedy", "prefix", "tokens", "samples", "samples of few tokens"),
    *("beam of 3", "penalty", "standard beam", "relaxed", "rejection"),
)


@pytest.mark.parametrize("drafter", [None, "heads", "small"])
@pytest.mark.parametrize("model", ["float32", "ensemble"])
@pytest.mark.parametrize("search", SEARCHES)
def test_decode_gives_what_predict_gives(
    answers: conftest.Answers, search: str, model: str, drafter: str | None
) -> None:
    if search == "standard beam" and drafter is not None:
        return  # it takes no drafts
    made, given = answers.model(model).model, {} if drafter is None else {"drafter": drafter}
    options: dict[str, Any] = answers.options(search, batch_size=4, **given)
    expected = made.predict(cases.QUERIES, **options)
    if prefix := options.get("target_prefix"):
        options["target_prefix"] = VOCABULARY.encode(prefix)
    sources = [made.reader.source(query).encoder_ids for query in cases.QUERIES]
    found = decode(made, sources, **IDS, **options)
    for name in ("decoder_calls", "nodes", "drafted_tokens", "accepted_tokens"):
        assert getattr(found.statistics, name) == getattr(expected.statistics, name)
    if drafter is None and search in cases.SEARCHES:
        alone = decode(made.engine, sources, **IDS, tokens=VOCABULARY.tokens, **options)
        assert torch.equal(alone.log_probs, found.log_probs)
    for row, result in enumerate(expected):
        for rank, answer in enumerate(result.predictions):
            length = int(found.lengths[row, rank])
            ids = found.sequences[row, rank, :length].tolist()
            assert VOCABULARY.decode(ids) == answer.smiles
            assert float(found.log_probs[row, rank]) == answer.log_prob
            assert bool(found.finished[row, rank]) == answer.finished
            assert int(found.tolerated[row, rank]) == (answer.tolerated or 0)
            after = answer.log_prob_after_prefix if prefix else answer.log_prob
            assert float(found.log_probs_after_prefix[row, rank]) == after
            values = found.token_log_probs[row, rank]
            if answer.token_log_probs is not None:
                assert tuple(values[:length].tolist()) == answer.token_log_probs
                values = values[length:]
            assert values.isnan().all()
