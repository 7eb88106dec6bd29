"""molspec's strategies in AiZynthFinder itself, if it is installed: `nox -s aizynthfinder`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "aizynthfinder", reason="AiZynthFinder is not installed: nox -s aizynthfinder has it"
)

from aizynthfinder.aizynthfinder import AiZynthFinder
from aizynthfinder.chem import SmilesBasedRetroReaction, TreeMolecule
from aizynthfinder.utils.exceptions import PolicyException, RejectionException
from rdkit import Chem

from molspec.planners import aizynthfinder as ours
from tests.planners.conftest import EXPANSIONS, STOCK, TARGETS

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stock") / "stock.txt"
    keys = map(Chem.MolToInchiKey, map(Chem.MolFromSmiles, STOCK.read_text().split()))
    path.write_text("\n".join(keys) + "\n")
    return path


def finder(stock: Path, algorithm: str = "mcts", **kwargs: Any) -> AiZynthFinder:
    """A finder that is configured as the module's docstring shows."""
    configured = AiZynthFinder(
        configdict={
            "search": {
                "algorithm": algorithm,
                "time_limit": 600,
                "iteration_limit": EXPANSIONS,
                "max_transforms": 6,
            },
            "expansion": {
                "molspec": {
                    "type": "molspec.planners.aizynthfinder.ExpansionStrategy",
                    "model": "retro",
                    "dtype": "int8",
                    "n_best": 5,
                    **kwargs,
                }
            },
            "filter": {
                "molspec": {
                    "type": "molspec.planners.aizynthfinder.FilterStrategy",
                    "model": "product",
                }
            },
            "stock": {"own": str(stock)},
        }
    )
    configured.stock.select("own")
    configured.expansion_policy.select("molspec")
    return configured


def routes(configured: AiZynthFinder, target: str) -> list[list[tuple[str, float]]]:
    """Reactions and log-probs of every route, sorted, because AiZynthFinder's order changes."""
    configured.target_smiles = target
    configured.tree_search()
    configured.build_routes()
    trees = [route["reaction_tree"] for route in configured.routes]
    return sorted(
        sorted((step.smiles, step.metadata["log_prob"]) for step in tree.reactions())
        for tree in trees
    )


@pytest.mark.parametrize(
    "algorithm", ["mcts", "aizynthfinder.search.retrostar.search_tree.SearchTree"]
)
def test_repeated_searches_find_the_same_routes(stock: Path, algorithm: str) -> None:
    first, second = finder(stock, algorithm), finder(stock, algorithm)
    solved = 0
    for target in TARGETS:
        found = routes(first, target)
        solved += first.extract_statistics()["is_solved"]
        assert routes(second, target) == found
        assert routes(first, target) == found  # from its cache
    assert solved >= 1
    assert first.expansion_policy["molspec"].expander.cache.hits > 0


def test_siblings_share_a_batch_and_change_no_answer(
    stock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    single, batched = (finder(stock).expansion_policy["molspec"] for _ in range(2))
    batches: list[int] = []
    predict = batched.expander.model.predict_stream

    def counted(queries: list[str], options: Any) -> Any:
        batches.append(len(queries))
        return predict(queries, options)

    monkeypatch.setattr(batched.expander.model, "predict_stream", counted)
    molecules = [TreeMolecule(parent=None, smiles=text) for text in TARGETS]
    reactions, priors = batched.get_actions(molecules[:1], molecules[1:])
    assert {reaction.mol for reaction in reactions} == {molecules[0]}
    assert batches == [len(TARGETS)]
    assert sum(priors) == pytest.approx(1)
    assert priors == sorted(priors, reverse=True)
    assert [each.metadata["policy_probability_rank"] for each in reactions] == list(range(5))
    batched.reset_cache()
    for molecule in molecules:
        expected, expected_priors = single.get_actions([molecule])
        found, found_priors = batched.get_actions([molecule])
        assert [each.reactants_str for each in expected] == [each.reactants_str for each in found]
        assert expected_priors == found_priors
    assert batches == [len(TARGETS)]


def test_filter_rejects_reactions_without_the_product(stock: Path) -> None:
    policy = finder(stock).filter_policy["molspec"]
    amide = TreeMolecule(parent=None, smiles="CC(=O)Nc1ccccc1")
    policy.apply(SmilesBasedRetroReaction(amide, reactants_str="CC(=O)Cl.Nc1ccccc1"))
    with pytest.raises(RejectionException, match="does not find"):
        policy.apply(SmilesBasedRetroReaction(amide, reactants_str="CCO.CCN"))


def test_a_configuration_without_a_model_is_refused(stock: Path) -> None:
    configured = finder(stock).config
    with pytest.raises(PolicyException, match="model"):
        ours.ExpansionStrategy("molspec", configured)
