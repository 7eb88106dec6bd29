"""Every setting of every class refuses wrong values by its name, and takes the ends of its range.

Combinations of settings, and what a search or a training makes of them, are tested beside those.
"""

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import fields, replace
from typing import Any, get_args

import numpy as np
import pytest

from molspec.common.console import quoted
from molspec.common.fields import check_fields, choices, hints
from molspec.drafting import HeadsDraft, LookAhead, SpecDraft, TreeDraft, WindowDrafts
from molspec.model.spec import HeadsSpec, ModelSpec
from molspec.prediction.options import PredictOptions
from molspec.server.limits import Limits
from molspec.training import PrepareOptions, TrainConfig
from molspec.training.config import HeadsConfig, SpecDrafterConfig

SETTINGS = (
    *(PredictOptions(), WindowDrafts(), TreeDraft(), HeadsDraft(), SpecDraft(), LookAhead(5)),
    *(ModelSpec(9, 9), HeadsSpec(), PrepareOptions("retro"), TrainConfig(steps=1), HeadsConfig()),
    *(SpecDrafterConfig(), Limits()),
)


def values_of(metadata: Any, hint: Any) -> tuple[list[Any], list[Any]]:
    """Wrong values of a setting, and right ones at the ends of its range."""
    kinds = get_args(hint) or (hint,)
    least, above, most = (metadata.get(name) for name in ("least", "above", "most"))
    if known := choices(hint):
        return ["other", 7], list(known)
    if bool in kinds:
        return ["no", 1, 0.0], [True, False]
    if int in kinds:
        least = 1 if least is None else int(least)
        beyond = [] if most is None else [int(most) + 1, 10**30]
        wrong = ["6", 2.5, float(least), True, np.True_, np.array([1, 2]), [3], least - 1]
        return wrong + beyond, [least, np.uint8(least), *([] if most is None else [int(most)])]
    if float in kinds:
        wrong = ["a", True, [1.0], math.nan, math.inf, 10**400, -1e-9, -1]
        wrong += [] if most is None else [math.nextafter(most, math.inf), most + 1]
        wrong += [above] if above is not None else [] if least is None else [least - 1e-9]
        ends = [math.nextafter(above, math.inf) if above is not None else least or 0]
        return wrong, ends + ([] if most is None else [most, np.float32(most)])
    if {*kinds} <= {str, type(None)}:
        return [5, True, b"C", ["C"]], ["C"]
    return [], []


def cases() -> Iterator[Any]:
    for settings in SETTINGS:
        kind: Any = type(settings)
        for each in fields(kind):
            hint = hints(kind)[each.name]
            wrong, right = values_of(each.metadata, hint)
            if wrong:
                wrong += [] if type(None) in get_args(hint) else [None]
                yield pytest.param(settings, each, wrong, right, id=f"{kind.__name__}.{each.name}")


@pytest.mark.parametrize(("settings", "each", "wrong", "right"), [*cases()])
def test_a_setting_refuses_wrong_values_and_takes_right_ones(
    settings: Any, each: Any, wrong: list[Any], right: list[Any]
) -> None:
    for value in wrong:
        with pytest.raises(ValueError, match=": expected ") as refused:
            replace(settings, **{each.name: value})
        assert str(refused.value).startswith(f"{each.name} is {quoted(value)}: expected "), value
    for value in right:
        taken = copy(settings)  # combinations are checked after the values
        object.__setattr__(taken, each.name, value)
        check_fields(taken)
        found = getattr(taken, each.name)
        assert found == value
        assert not isinstance(found, np.generic)


def test_numbers_of_numpy_are_those_of_python() -> None:
    options = PredictOptions(np.int64(3), beam_size=np.uint8(4), max_length=np.int32(9))
    assert options == PredictOptions(3, beam_size=4, max_length=9)
    sampling = PredictOptions(samples=2, temperature=np.float32(0.5), top_p=np.int64(1))
    assert (type(sampling.temperature), type(sampling.top_p)) == (float, float)
