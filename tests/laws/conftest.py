from pathlib import Path
from typing import Any

import pytest

from tests.laws import cases


class Answers:
    """The models, each made once, with the drafters, and the answers that others must equal."""

    def __init__(self, folder: Path) -> None:
        cases.write_models(folder)
        self._drafters = cases.drafters(folder)
        self._models: dict[str, Any] = {}
        self._plain: dict[tuple[str, str], list[Any]] = {}

    def model(self, name: str) -> Any:
        if name not in self._models:
            self._models[name] = cases.MODELS[name]()
        return self._models[name]

    def options(self, search: str, **more: Any) -> cases.Options:
        """The options of a search, without drafts if they decide nothing."""
        drafter = "none" if search in cases.SEARCHES else None
        own = cases.SEARCHES.get(search) or cases.DECIDED.get(search, {})
        options = {"max_length": cases.MAX_LENGTH, "drafter": drafter, **own, **more}
        make = self._drafters.get(str(options["drafter"]))
        return {**options, "drafter": make()} if make else options

    def plain(self, model: str, search: str) -> list[Any]:
        """Each query alone, on one thread."""
        if (model, search) not in self._plain:
            options = self.options(search, batch_size=1)
            made = self.model(model)
            alone = [made.answers([query], **options)[0] for query in made.queries]
            self._plain[model, search] = [answer for (answer,) in alone]
        return self._plain[model, search]


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(tmp_path_factory.mktemp("laws"))
