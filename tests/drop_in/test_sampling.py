"""Samples of users' models, and users' models that draft for one another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from molspec import decode
from molspec.drafting import ModelDraft
from tests.drop_in.hugging_face_models import bart, ids_of, sources, t5
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": 14}
SOURCES = [[4, 5, 6, 7, 8], [9, 4, 5], [7, 7, 8, 9, 10, 11, 12, 4]]
OPTIONS: dict[str, Any] = {"samples": 4, "temperature": 0.8, "seed": 5}
#: PyTorch rounds alike only in batches of one shape. Samples are compared in float64, in which a
#: tie is practically impossible.


def module(seed: int) -> PlainTransformer:
    return PlainTransformer(seed=seed).double().eval()


def drafters(target: Any, other: Any) -> dict[str, Any]:
    return {
        "tree": "tree",
        "itself": ModelDraft(target, gamma=3),
        "other": ModelDraft(other, gamma=2),
        "hierarchy": ModelDraft(target, gamma=4, drafter=ModelDraft(other, gamma=2)),
    }


@pytest.mark.parametrize("drafter", ["tree", "itself", "other", "hierarchy"])
def test_drafters_do_not_change_samples_of_modules(drafter: str) -> None:
    target, other = module(14), module(3)
    options = {**OPTIONS, **IDS}
    plain = decode(target, SOURCES, drafter="none", **options)
    assert plain.sequences.shape[:2] == (3, 4)
    drafted = decode(target, SOURCES, drafter=drafters(target, other)[drafter], **options)
    assert torch.equal(drafted.sequences, plain.sequences)
    if drafter == "itself":
        assert drafted.statistics.query_calls < plain.statistics.query_calls


@pytest.mark.parametrize("n_best", [1, 3])
def test_drafters_do_not_change_greedy_answers_and_beams(n_best: int) -> None:
    target, other = module(14), module(3)
    plain = decode(target, SOURCES, drafter="none", n_best=n_best, **IDS)
    for drafter in drafters(target, other).values():
        drafted = decode(target, SOURCES, drafter=drafter, n_best=n_best, **IDS)
        assert torch.equal(drafted.sequences, plain.sequences)


@pytest.mark.parametrize("make", [t5, bart], ids=["T5", "BART"])
def test_hugging_face_models_draft_without_changing_answers(make: Any) -> None:
    target, other = make().double(), make(d_model=16).double()
    ids = {**ids_of(target), "max_length": 12}
    source_ids = sources(target, 4)
    plain = decode(target, source_ids, drafter="none", **OPTIONS, **ids)
    for drafter in (ModelDraft(target, gamma=3), ModelDraft(other, gamma=2)):
        drafted = decode(target, source_ids, drafter=drafter, **OPTIONS, **ids)
        assert torch.equal(drafted.sequences, plain.sequences)
    greedy = decode(target, source_ids, drafter="none", **ids)
    drafted = decode(target, source_ids, drafter=ModelDraft(target, gamma=3), **ids)
    assert torch.equal(drafted.sequences, greedy.sequences)
    assert drafted.statistics.query_calls < greedy.statistics.query_calls


def test_errors_name_drafters_of_another_vocabulary() -> None:
    target, other = module(14), PlainTransformer(vocab_size=17).double().eval()
    message = (
        "^the drafter, a PlainTransformer, has 17 target ids: expected 15, as the model that it "
        "drafts for$"
    )
    with pytest.raises(ValueError, match=message):
        decode(target, SOURCES, drafter=ModelDraft(other), **IDS)
