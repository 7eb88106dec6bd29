"""The model for planners: what it decodes of a query, and which reactants it drops."""

from types import SimpleNamespace
from typing import Any

import pytest

from molspec.common.task import Task
from molspec.planners.expander import Expander
from molspec.prediction.model import Model
from molspec.prediction.results import Prediction, Result

PROCAINE = "CCN(CC)CCOC(=O)c1ccc(N)cc1"


def test_the_molecule_of_a_salt_is_decoded_with_a_word(retro: Model) -> None:
    expander = Expander(retro)
    queries = [f"Cl.{PROCAINE}", PROCAINE, "CC(=O)Cl.Nc1ccccc1"]
    salt, molecule, mixture = results = expander.predict(queries, 3)
    assert molecule.predictions
    assert salt == molecule
    assert mixture.query == queries[2]
    assert not mixture.predictions
    assert "not a salt" in str(mixture.error)
    said: list[str] = []
    for _ in range(2):  # each reason once
        expander.report(queries, results, said.append)
    assert len(said) == 2
    assert [any(each.startswith(query) for each in said) for query in queries] == [1, 0, 1]
    assert f"decoded as {PROCAINE}" in said[0]


def test_kept_salts_are_decoded_as_they_stand(retro: Model) -> None:
    (kept,) = Expander(retro, keep_salts=True).predict([f"Cl.{PROCAINE}"], 3)
    assert kept.query == f"Cl.{PROCAINE}"
    assert kept != Expander(retro).predict([PROCAINE], 3)[0]


#: A product, a model's answer to it, and whether that is dropped: a reactant is the product but for
#: its stereo, or the product has an element that no reactant has.
ANSWERS = [
    ("C[C@H]([NH3+])c1ccccc1", "CC(N)c1ccccc1", True),
    ("C[C@H](N)c1ccccc1", "CC([NH3+])c1ccccc1.O", True),
    ("C[C@H](N)C(=O)O", "CC([NH3+])C(=O)[O-]", True),
    ("C[C@H](N)c1ccccc1", "C[C@@H]([NH3+])c1ccccc1", True),
    ("C[C@H](N)c1ccccc1", "CC(N)c1ccccc1", True),
    ("C[C@H](O)c1ccccc1", "C[C@@H](O)c1ccccc1", True),
    ("C[C@H](O)c1ccccc1", "CC(O)c1ccccc1.CCO", True),
    ("C[C@H](O)c1ccccc1", "CC(=O)c1ccccc1", False),
    ("CC(=O)Nc1ccccc1", "CC(=O)O", True),
    ("CC(=O)Nc1ccccc1", "CC(=O)O.Nc1ccccc1", False),
    # A salt may be for sale, or asked for.
    ("C[C@H]([NH3+])c1ccccc1", "C[C@H](N)c1ccccc1", False),
    ("CC(=O)O", "CC(=O)[O-]", False),
    ("CC(=O)[O-]", "CC(=O)O", False),
    # A charge without protons makes another molecule.
    ("C[C@H](C[N+](C)(C)C)O", "CC(CN(C)C)O", False),
]


def is_kept(product: str, answer: str, task: Task) -> bool:
    result = Result(product, (Prediction(answer, -1.0),), task=task)
    cache: Any = SimpleNamespace(predict=lambda *_: [result])
    model: Any = SimpleNamespace(task=task)
    (found,) = Expander(model, cache=cache).predict([product])
    return found.predictions == result.predictions


@pytest.mark.parametrize(("product", "reactants", "is_dropped"), ANSWERS)
def test_answers_that_are_no_step_are_dropped(
    product: str, reactants: str, is_dropped: bool
) -> None:
    assert is_kept(product, reactants, "retro") != is_dropped


def test_a_product_may_be_a_stereoisomer_of_its_reactant() -> None:
    assert is_kept("C[C@H](O)c1ccccc1", "C[C@@H](O)c1ccccc1", "product")
