"""Which options go together: the only tests of it, as every layer passes them on.

Wrong values of single options are tried in tests/common/test_fields.py.
"""

from dataclasses import replace
from typing import Any, get_type_hints

import pytest

from molspec import Model, PredictOptions
from molspec.common.fields import hints
from molspec.drafting import LookAhead, NoDraft, TreeDraft
from molspec.drafting.options import DRAFTERS
from molspec.drop_in.decode import _NAMES, _OF_MOLECULES
from molspec.prediction.keywords import IdKeywords, PredictKeywords
from tests import refused, tiny

RELAXED = {"verification": "relaxed"}
#: What does not go with samples, and what goes with nothing else.
WITH_SAMPLES = {
    "n_best": 2,
    "beam_size": 3,
    "beam": "exact",
    "length_penalty": 1.0,
    "augmentations": 2,
    "finished": "separate",
    **dict.fromkeys(("drop_invalid", "drop_unchanged", "drop_impossible"), True),
}
ALONE = {"temperature": 0.5, "seed": 1, "top_p": 0.5, "beta": 5, "tau": 2.0, "judge": "drafter"}
#: The option that is named, and the options.
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("beam_size", {"n_best": 3, "beam_size": 2}),
    ("augment_below", {"augment_below": 0.5}),
    ("length_penalty", {"length_penalty": 0.5, "merge_duplicates": True, "n_best": 2}),
    ("length_penalty", {"length_penalty": 0.5, "augmentations": 2}),
    ("finished", {"beam": "sbs", "finished": "separate"}),
    *((name, {"samples": 3, name: value}) for name, value in WITH_SAMPLES.items()),
    *((name, {name: value}) for name, value in ALONE.items()),
    ("verification", RELAXED | {"n_best": 2}),
    ("verification", RELAXED | {"samples": 2}),
    ("verification", RELAXED | {"drop_invalid": True}),
    ("verification", {"verification": "rejection"}),
    ("verification", {"verification": "rejection", "n_best": 3}),
    ("judge", RELAXED | {"judge": "drafter", "drafter": "windows"}),
    ("judge", RELAXED | {"judge": "drafter", "drafter": "none"}),
    ("drafter", {"drafter": 7}),
    ("drafter", {"drafter": "heads?"}),
    ("drafter", {"drafter": LookAhead(5)}),
    ("drafter", {"n_best": 3, "drafter": TreeDraft()}),
    ("drafter", {"n_best": 3, "beam": "standard", "drafter": TreeDraft()}),
    ("drafter", {"drafter": "windows", "drop_invalid": True}),
    ("draft_length", {"draft_length": 5}),
    ("draft_length", {"n_best": 3, "draft_length": 5}),
    ("draft_count", {"drafter": "tree", "draft_count": 5}),
    ("node_budget", {"beam": "standard", "node_budget": 5}),
    ("node_budget", {"drafter": TreeDraft(), "node_budget": 5}),
]
#: The same, of models alone.
BY_MODELS: list[tuple[str, dict[str, Any]]] = [
    ("min_length", {"min_length": 15, "max_length": 14}),
    ("augmentations", {"augmentations": 2, "canonical_queries": False}),
    ("augmentations", {"augmentations": 2}),
]


@pytest.mark.parametrize(("name", "options"), REFUSED, ids=str)
def test_options_that_do_not_go_together_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=": ") as error:
        PredictOptions(**options)
    assert str(error.value).startswith(f"{name} is {options[name]!r}: ")


@pytest.mark.parametrize(("name", "options"), BY_MODELS, ids=str)
def test_models_refuse_options_that_do_not_fit_them(name: str, options: dict[str, Any]) -> None:
    canonical = len(options) > 1
    model = Model(replace(tiny.checkpoint(), canonical_queries=canonical))
    refused(f"^{name} is {options[name]}: ", model.predict, ["C"], **options)


@pytest.mark.parametrize(
    ("search", "taken"),
    [
        ({}, "none windows tree heads spec"),
        ({"n_best": 3}, "none tree heads spec"),
        ({"beam": "exact", "n_best": 3, "node_budget": 7}, "tree heads spec"),
        ({"beam": "standard"}, "none"),
        ({"beam": "sbs", "n_best": 2}, "none windows heads spec"),
        ({"samples": 3}, "none windows tree heads spec"),
    ],
    ids=str,
)
def test_a_search_takes_these_drafters(search: dict[str, Any], taken: str) -> None:
    """A refusal of one names the others, and no further one."""
    for name in DRAFTERS:
        if name in taken.split():
            assert PredictOptions(**search, drafter=name).drafter == name
        elif "node_budget" not in search:
            named = ".*".join(f"'{each}'" for each in taken.split())
            refused(f"takes {named}[^']*$", PredictOptions, **search, drafter=name)
    if "node_budget" not in search:
        assert PredictOptions(**search, drafter=NoDraft()).drafter == NoDraft()


def test_dropped_answers_need_drafts_for_a_beam_only_if_it_widens() -> None:
    options = {"drop_invalid": True, "drafter": "windows"}
    refused("unless max_beam_factor is 1$", PredictOptions, **options)
    assert PredictOptions(**options, max_beam_factor=1).drops


def test_typed_keywords_are_the_options() -> None:
    options = {name: kind for name, kind in hints(PredictOptions).items() if name != "n_best"}
    assert get_type_hints(PredictKeywords) == options
    accepted = {*_NAMES} - {*_OF_MOLECULES} - {"n_best", "augment_below", "max_beam_factor"}
    assert {*get_type_hints(IdKeywords)} == accepted
