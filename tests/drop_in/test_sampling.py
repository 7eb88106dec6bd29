"""Users' models that draft for one another, and change neither samples nor other answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from molspec import decode
from molspec.drafting import ModelDraft
from tests.drop_in.hugging_face_models import bart, ids_of, sources, t5
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer
from tests.refusals import refused

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": 14}
SOURCES = [[4, 5, 6, 7, 8], [9, 4, 5], [7, 7, 8, 9, 10, 11, 12, 4]]
SEARCHES: tuple[dict[str, Any], ...] = (
    {},
    {"n_best": 3},
    {"samples": 4, "temperature": 0.8, "seed": 5},
)


def module(seed: int) -> PlainTransformer:
    """In float64: PyTorch rounds alike only in batches of one shape."""
    return PlainTransformer(seed=seed).double().eval()


def checked(target: Any, other: Any, source_ids: Any, **ids: Any) -> None:
    """Checks that drafts of the model itself, of another and of both change no answer."""
    drafters = {
        "tree": "tree",
        "itself": ModelDraft(target, gamma=3),
        "other": ModelDraft(other, gamma=2),
        "hierarchy": ModelDraft(target, gamma=4, drafter=ModelDraft(other, gamma=2)),
    }
    for options in SEARCHES:
        plain = decode(target, source_ids, drafter="none", **options, **ids)
        for name, drafter in drafters.items():
            found = decode(target, source_ids, drafter=drafter, **options, **ids)
            assert torch.equal(found.sequences, plain.sequences)
            if name == "itself" and "n_best" not in options:
                assert found.statistics.query_calls < plain.statistics.query_calls


def test_modules_draft_without_changing_answers() -> None:
    checked(module(14), module(3), SOURCES, **IDS)


@pytest.mark.parametrize("make", [t5, bart], ids=["T5", "BART"])
def test_hugging_face_models_draft_without_changing_answers(make: Any) -> None:
    target, other = make().double(), make(d_model=16).double()
    checked(target, other, sources(target, 4), **{**ids_of(target), "max_length": 12})


def test_errors_name_drafters_of_another_vocabulary() -> None:
    other = ModelDraft(PlainTransformer(vocab_size=17).double().eval())
    message = "^the drafter, a PlainTransformer, has 17 target ids"
    refused(message, decode, module(14), SOURCES, drafter=other, **IDS)
