"""Options that do not go together are refused by the name and the value of one of them.

Wrong values of single options are tried in tests/common/test_fields.py.
"""

from dataclasses import replace
from typing import Any

import pytest

from molspec import Model, PredictOptions
from molspec.drafting import LookAhead, TreeDraft
from tests import tiny

SAMPLES: dict[str, Any] = {"samples": 3}
RELAXED: dict[str, Any] = {"verification": "relaxed"}

#: The option that the error names, and the others that it does not go with.
REFUSED: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("drafter", "windows", {"n_best": 3}),
    ("drafter", "windows", {"drop_invalid": True}),
    ("drafter", TreeDraft(), {"n_best": 3}),
    ("drafter", LookAhead(5), {}),
    ("drafter", "tree", {"n_best": 3, "beam": "standard"}),
    ("drafter", "tree", {"n_best": 3, "beam": "sbs"}),
    ("drafter", 7, {}),
    ("drafter", "heads?", {}),
    ("beam_size", 2, {"n_best": 3}),
    ("finished", "separate", {"beam": "sbs"}),
    ("draft_length", 5, {"n_best": 3}),
    ("min_length", 15, {"max_length": 14}),
    *(
        (name, value, SAMPLES)
        for name, value in (
            *(("n_best", 2), ("beam_size", 3), ("beam", "exact"), ("length_penalty", 1.0)),
            *(("finished", "separate"), ("augmentations", 2)),
        )
    ),
    *((name, value, {}) for name, value in (("temperature", 0.5), ("seed", 1), ("top_p", 0.5))),
    ("verification", "other", {}),
    ("verification", "rejection", {}),
    ("verification", "rejection", {"n_best": 3}),
    ("verification", "relaxed", {"n_best": 2}),
    ("verification", "relaxed", {"samples": 2}),
    ("verification", "relaxed", {"drop_invalid": True}),
    ("judge", "drafter", {**RELAXED, "drafter": "windows"}),
    *((name, value, {}) for name, value in (("beta", 5), ("tau", 2.0), ("judge", "drafter"))),
    ("length_penalty", 0.5, {"n_best": 2, "augmentations": 2}),
    ("length_penalty", 0.5, {"n_best": 2, "merge_duplicates": True}),
    ("augmentations", 2, {"canonical_queries": False}),
    ("augment_below", 0.5, {}),
)


@pytest.mark.parametrize(("name", "value", "others"), REFUSED, ids=str)
def test_what_does_not_go_together_is_refused(
    name: str, value: Any, others: dict[str, Any]
) -> None:
    model = Model(replace(tiny.checkpoint(), canonical_queries=True))
    with pytest.raises(ValueError, match=": ") as refused:
        model.predict(["C"], **{name: value, **others})
    shown = repr(value) if isinstance(value, str | int | float) else ""
    assert str(refused.value).startswith(f"{name} is {shown}")


def test_spellings_need_a_model_of_canonical_queries() -> None:
    with pytest.raises(ValueError, match=r"^augmentations is 2: "):
        tiny.model().predict(["C"], augmentations=2)


def test_a_beam_that_is_not_widened_takes_drafts_of_greedy_decoding() -> None:
    assert PredictOptions(drop_invalid=True, drafter="windows", max_beam_factor=1).drops
