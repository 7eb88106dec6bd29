"""molspec's strategies in AiZynthFinder itself, if it is installed: `nox -s aizynthfinder`."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "aizynthfinder", reason="AiZynthFinder is not installed: nox -s aizynthfinder has it"
)

from aizynthfinder.aizynthfinder import AiZynthFinder
from aizynthfinder.chem import SmilesBasedRetroReaction, TreeMolecule
from aizynthfinder.utils.bonds import BrokenBonds
from aizynthfinder.utils.exceptions import PolicyException, RejectionException
from rdkit import Chem

from molspec.planners import aizynthfinder as ours
from tests import refused
from tests.planners.conftest import EXPANSIONS, STOCK, TARGETS

pytestmark = pytest.mark.filterwarnings("default")


RETRO_STAR = "aizynthfinder.search.retrostar.search_tree.SearchTree"
#: An amide, 2-4, and an ester, 9-10; either can be made last.
MAPPED = (
    "[CH3:1][C:2](=[O:3])[NH:4][c:5]1[cH:6][cH:7][c:8]([O:9][C:10](=[O:11])[CH3:12])[cH:13][cH:14]1"
)
OURS = "molspec.planners.aizynthfinder"
AMIDE, ESTER = (2, 4), (9, 10)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stock") / "stock.txt"
    whole = ["CC(=O)Nc1ccc(O)cc1", "CC(=O)Oc1ccc(N)cc1", "CC(=O)OC(C)=O", "CC(=O)Cl"]
    smiles = [*STOCK.read_text().split(), *whole]
    keys = map(Chem.MolToInchiKey, map(Chem.MolFromSmiles, smiles))
    path.write_text("\n".join(keys) + "\n")
    return path


def finder(
    stock: Path, algorithm: str = "mcts", search: dict[str, Any] | None = None, **kwargs: Any
) -> AiZynthFinder:
    """A finder that is configured as the module's docstring shows."""
    configured = AiZynthFinder(
        configdict={
            "search": (
                {"algorithm": algorithm, "iteration_limit": EXPANSIONS}
                | {"time_limit": 600, "max_transforms": 6, **(search or {})}
            ),
            "expansion": {
                "molspec": {"type": f"{OURS}.ExpansionStrategy", "model": "retro", "n_best": 5}
                | kwargs
            },
            "filter": {"molspec": {"type": f"{OURS}.FilterStrategy", "model": "product"}},
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
    return sorted(sorted((s.smiles, s.metadata["log_prob"]) for s in t.reactions()) for t in trees)


@pytest.mark.parametrize("algorithm", ["mcts", RETRO_STAR])
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

    def counted(queries: list[str], *options: Any) -> Any:
        batches.append(len(queries))
        return predict(queries, *options)

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


def broken(configured: AiZynthFinder) -> list[set[tuple[int, int]]]:
    """The bonds, of the amide and the ester, that each solved route breaks."""
    configured.target_smiles = MAPPED
    configured.tree_search()
    configured.build_routes()
    trees = [route["reaction_tree"] for route in configured.routes]
    assert configured.extract_statistics()["is_solved"]
    return [
        {
            bond
            for reaction in tree.reactions()
            for bond in BrokenBonds([AMIDE, ESTER])(reaction.to_smiles_based_retroreaction())
        }
        for tree in trees
        if tree.is_solved
    ]


@pytest.mark.parametrize("algorithm", ["mcts", RETRO_STAR])
def test_frozen_bonds_are_kept_and_routes_are_found(stock: Path, algorithm: str) -> None:
    found = broken(finder(stock, algorithm))
    assert {AMIDE} in found
    assert {ESTER} in found
    for frozen, other in ((AMIDE, ESTER), (ESTER, AMIDE)):
        found = broken(finder(stock, algorithm, {"freeze_bonds": [[*frozen]]}))
        assert found
        assert all(bonds == {other} for bonds in found)


def test_bonds_to_break_come_first(stock: Path) -> None:
    rewards = {"search_rewards": ["state score", "broken bonds"]}
    for bond in (AMIDE, ESTER):
        search = {"break_bonds": [[*bond]], "algorithm_config": rewards}
        configured = finder(stock, "mcts", search)
        assert broken(configured)
        best, *_, worst = sorted(
            (tree for tree in configured.routes if tree["reaction_tree"].is_solved),
            key=lambda tree: -tree["score"]["broken bonds"],
        )
        assert best["score"]["broken bonds"] == 1 > worst["score"]["broken bonds"]


def test_maps_of_new_atoms_are_none_of_the_target(stock: Path) -> None:
    policy = finder(stock).expansion_policy["molspec"]
    target = TreeMolecule(parent=None, smiles=MAPPED)
    numbers = set(target.mapping_to_index)
    for reaction in policy.get_actions([target])[0]:
        for reactant in reaction.reactants[0]:
            kept = numbers & set(reactant.mapping_to_index)
            for step in policy.get_actions([reactant])[0]:
                for each in step.reactants[0]:
                    assert numbers & set(each.mapping_to_index) <= kept
                    for atom in each.mapped_mol.GetAtoms():
                        if (number := atom.GetAtomMapNum()) in numbers:
                            place = target.mapping_to_index[number]
                            same = target.mapped_mol.GetAtomWithIdx(place)
                            assert atom.GetSymbol() == same.GetSymbol()


def test_a_configuration_without_a_model_is_refused(stock: Path) -> None:
    configured = finder(stock).config
    refused(PolicyException, "model", ours.ExpansionStrategy, "molspec", configured)
