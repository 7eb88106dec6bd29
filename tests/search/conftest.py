from collections.abc import Callable
from typing import Any

import pytest

from molspec.prediction.model import Model
from tests.laws import cases


@pytest.fixture(scope="module")
def model() -> Model:
    return cases.Own().model


@pytest.fixture(scope="session")
def drafters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[], Any]]:
    """What makes the drafters of the laws, for the models of `cases.Own`."""
    folder = tmp_path_factory.mktemp("drafters")
    cases.write_models(folder)
    return {**cases.drafters(folder), "none": lambda: "none"}
