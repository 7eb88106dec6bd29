"""The model for planners: what it decodes of a query, and which reactants it drops."""

import pytest

from molspec.planners.expander import Expander
from molspec.prediction.model import Model, load
from molspec.prediction.results import Prediction, Result

PROCAINE = "CCN(CC)CCOC(=O)c1ccc(N)cc1"


@pytest.fixture(scope="module")
def retro() -> Model:
    return load("retro", dtype="int8")


def test_the_molecule_of_a_salt_is_decoded_with_a_word(retro: Model) -> None:
    expander = Expander(retro)
    queries = [f"Cl.{PROCAINE}", PROCAINE, "CC(=O)Cl.Nc1ccccc1"]
    salt, molecule, mixture = results = expander.predict(queries, 3)
    assert molecule.predictions
    assert salt == molecule
    assert mixture.query == queries[2]
    assert not mixture.predictions
    assert "not a salt" in str(mixture.error)
    said = list(expander.unreported(queries, results))
    assert [any(each.startswith(query) for each in said) for query in queries] == [1, 0, 1]
    assert f"decoded as {PROCAINE}" in said[0]
    assert not list(expander.unreported(queries, results))


def test_kept_salts_are_decoded_as_they_stand(retro: Model) -> None:
    (kept,) = Expander(retro, keep_salts=True).predict([f"Cl.{PROCAINE}"], 3)
    assert kept.query == f"Cl.{PROCAINE}"
    assert kept != Expander(retro).predict([PROCAINE], 3)[0]


@pytest.mark.parametrize(
    ("product", "reactants", "is_dropped"),
    [
        ("C[C@H]([NH3+])c1ccccc1", "CC(N)c1ccccc1", True),
        ("C[C@H](N)c1ccccc1", "CC([NH3+])c1ccccc1.O", True),
        ("C[C@H](N)C(=O)O", "CC([NH3+])C(=O)[O-]", True),
        ("C[C@H](N)c1ccccc1", "C[C@@H]([NH3+])c1ccccc1", True),
        ("C[C@H](N)c1ccccc1", "CC(N)c1ccccc1", True),
        # A salt may be for sale, or asked for.
        ("C[C@H]([NH3+])c1ccccc1", "C[C@H](N)c1ccccc1", False),
        ("CC(=O)O", "CC(=O)[O-]", False),
        ("CC(=O)[O-]", "CC(=O)O", False),
        # A charge without protons makes another molecule.
        ("C[C@H](C[N+](C)(C)C)O", "CC(CN(C)C)O", False),
    ],
)
def test_a_reactant_that_is_the_product_but_for_stereo_is_dropped(
    retro: Model, monkeypatch: pytest.MonkeyPatch, product: str, reactants: str, is_dropped: bool
) -> None:
    expander = Expander(retro)
    answer = Result(product, (Prediction(reactants, -1.0),), task="retro")
    monkeypatch.setattr(expander.cache, "predict", lambda *_: [answer])
    (found,) = expander.predict([product])
    assert found.predictions == (() if is_dropped else answer.predictions)
