"""molspec's models in Syntheseus itself, if it is installed: `nox -s syntheseus`."""

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

pytest.importorskip("syntheseus", reason="Syntheseus is not installed: nox -s syntheseus has it")

from syntheseus import Bag, Molecule
from syntheseus.cli import search
from syntheseus.search.node_evaluation import common

from molspec import PredictOptions
from molspec.files import Query
from molspec.planners.expander import Expander
from molspec.planners.routes import SearchLimits
from molspec.planners.search import ALGORITHMS
from molspec.planners.stock import read_stock
from molspec.planners.syntheseus import BackwardModel, ForwardModel, HeavyAtomCost
from molspec.prediction.cache import AnswerCache
from molspec.prediction.model import Model
from tests import refused
from tests.planners.conftest import EXPANSIONS, STOCK, TARGETS, planner

pytestmark = pytest.mark.filterwarnings("default")

USABLE = PredictOptions(
    n_best=5, merge_duplicates=True, drop_invalid=True, drop_unchanged=True, max_beam_factor=1
)


def backward(retro: Model, **options: Any) -> BackwardModel:
    expander = Expander(retro, **options)
    return BackwardModel(expander=expander, default_num_results=5, use_cache=True)


def test_reactions_equal_the_usable_answers_of_the_model(retro: Model) -> None:
    model = backward(retro)
    molecules = [Molecule(text) for text in TARGETS]
    together = model(molecules)
    for molecule, reactions in zip(molecules, together, strict=True):
        (expected,) = retro.predict_stream([molecule.smiles], USABLE)
        assert [reaction.reactants_str for reaction in reactions] == [
            ".".join(sorted(str(found.canonical).split("."))) for found in expected.predictions
        ]
        for reaction, found in zip(reactions, expected.predictions, strict=True):
            assert reaction.metadata["log_probability"] == found.log_prob
            assert reaction.metadata["probability"] == math.exp(found.log_prob)
            assert all(each == Molecule(each.smiles) for each in reaction.reactants)
        assert BackwardModel(expander=Expander(retro))([molecule], 5) == [reactions]
    assert [len(each) for each in model(molecules, 2)] == [2] * len(molecules)
    assert sum(each.numel() for each in model.get_parameters()) == retro.parameter_count


def test_a_molecule_that_cannot_be_read_is_warned_of_once_a_reason(
    retro: Model, caplog: pytest.LogCaptureFixture
) -> None:
    model = backward(retro)
    unread = ["[2H]NC", "[2H]OC", "[Po]C", "C" * 600, "C" * 601]
    assert model([Molecule(text) for text in unread]) == [[]] * len(unread)
    assert len(model([Molecule("[2H]C"), Molecule(TARGETS[0])])[1]) == 5
    said = [record.getMessage() for record in caplog.records]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    for molecule, fault, message in zip(
        ("[2H]", "Po", "C" * 600), ("[2H]", "[Po]", "600 tokens"), said, strict=True
    ):
        assert molecule in message
        assert fault in message


@pytest.mark.parametrize(
    ("why", "own", "algorithm"),
    [
        ("out of expansions", {}, "retro-star"),
        ("out of time", {"seconds": 0.0}, "retro-star"),
        ("nothing left", {"max_steps": 1}, "retro-star"),
        ("nothing left", {"max_steps": 1}, "mcts"),
    ],
)
def test_a_search_without_routes_says_why_it_ended(
    retro: Model, why: str, own: dict[str, Any], algorithm: str
) -> None:
    target = Query("CC(=O)Nc1ccccc1")
    limits = {"expansions": 3, **own}
    plan = planner(Expander(retro), ["CC(=O)Cl"], algorithm, **limits).plan(target)
    assert (plan.outcome, plan.error) == ("not solved", None)
    assert plan.stopped.startswith(why)
    if why == "nothing left":
        assert plan.missing == ("Nc1ccccc1",)
        assert plan.attempt is not None
        assert plan.attempt.leaves == ("CC(=O)Cl", "Nc1ccccc1")
    if why == "out of time":
        assert (plan.missing, plan.attempt) == ((target.smiles,), None)
    found = planner(Expander(retro), ["CC(=O)Cl", "Nc1ccccc1"]).plan(target)
    assert (found.outcome, found.stopped, found.missing) == ("solved", "", ())
    assert found.attempt is None


def test_a_route_names_racemic_reactants_and_what_is_bought(retro: Model, tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("CC(=O)Cl\nOC(C)c1ccccc1 flat\n")
    stock = read_stock(tmp_path / "a.smi", "no-stereo")
    loosely = planner(Expander(retro), stock, routes=1, expansions=30)
    plan = loosely.plan(Query("CC(=O)O[C@H](C)c1ccccc1"))
    assert plan.bought == {"C[C@@H](O)c1ccccc1": "CC(O)c1ccccc1"}
    flat = planner(Expander(retro), ["CC(=O)Cl", "CC(O)c1ccccc1"], n_best=10, max_steps=1)
    plan = flat.plan(Query("CC(=O)O[C@@H](C)c1ccccc1"))
    assert [step.racemic for step in plan.routes[0].steps] == [("CC(O)c1ccccc1",)]


def test_ten_steps_in_a_row_are_searched_by_default(retro: Model) -> None:
    search = planner(Expander(retro), ["C"])._search
    assert search.max_expansion_depth == 2 * 10  # molecules and reactions


def test_reset_keeps_the_cache_of_answers(retro: Model) -> None:
    model = backward(retro)
    for _ in range(2):
        model([Molecule(TARGETS[0])])
        model.reset()
    assert (model.expander.cache.misses, model.expander.cache.hits) == (1, 1)


def test_forward_model_predicts_products() -> None:
    model = ForwardModel(default_num_results=2)
    bag = Bag([Molecule("CC(=O)Cl"), Molecule("Nc1ccccc1")])
    (reactions,) = model([bag])
    assert reactions[0].products == Bag([Molecule("CC(=O)Nc1ccccc1")])
    assert reactions[0].reactants == bag


def test_invalid_arguments_are_refused(retro: Model) -> None:
    refused("expected a model of task 'retro'", BackwardModel, model_dir="product")
    refused(TypeError, "options has no option 'beams'", BackwardModel, options={"beams": 3})
    refused("mass is 2", Expander, retro, mass=2)


def test_answers_beyond_the_mass_are_dropped(retro: Model) -> None:
    (whole,), (part,) = (Expander(retro, mass=m).predict(TARGETS[:1], 5) for m in (1.0, 0.6))
    count = len(part.predictions)
    assert part.predictions == whole.predictions[:count]
    assert sum(whole.shares[:count]) >= 0.6 > sum(whole.shares[: count - 1])


class _BatchedWithOthers(Expander):
    """Adds other molecules to every batch, as a planner of many targets at once would."""

    def predict(self, queries: Any, n_best: Any = None, along: Any = ()) -> Any:
        return super().predict(queries, n_best, [*along, "CCOC(C)=O", "CC(=O)Nc1ccccc1"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_routes_do_not_depend_on_cache_or_batch(
    retro: Model, algorithm: str, tmp_path: Path
) -> None:
    """Routes and numbers of expansions are equal: repeated, from a file, and in other batches."""
    limits = {"routes": 2, "seconds": math.inf, "expansions": EXPANSIONS}
    cache = AnswerCache(path=tmp_path / "answers.sqlite")
    expanders = [
        Expander(retro),
        Expander(retro),
        Expander(retro, cache=cache),
        Expander(retro, cache=cache),
        _BatchedWithOthers(retro),
        Expander(retro, {"batch_size": 2}),
    ]
    found = []
    for expander in expanders:
        plan = planner(expander, read_stock(STOCK), algorithm, **limits).plan
        plans = [plan(Query(target)) for target in TARGETS]
        found.append([(plan.routes, plan.expansions, plan.error) for plan in plans])
    assert all(each == found[0] for each in found)
    solved = [routes for routes, _, _ in found[0] if routes]
    assert len(solved) >= (2 if algorithm == "retro-star" else 1)
    stock = read_stock(STOCK)
    for routes in solved:
        for route in routes:
            assert route.steps
            assert stock.keys() >= set(route.leaves)


def test_estimated_costs_lead_to_a_first_route_sooner(
    retro: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not to other ones at the end: after the first route bounds decide."""
    cache, found = AnswerCache(), []
    for routes in (1, 2):
        for nats in (0.2, 0.0):
            monkeypatch.setattr(HeavyAtomCost.__init__, "__defaults__", (nats,))
            limits = {"routes": routes, "seconds": math.inf, "expansions": 48}
            plan = planner(Expander(retro, cache=cache), read_stock(STOCK), **limits).plan
            found.append([plan(Query(target)) for target in TARGETS])
    first, plainly, ends, plain_ends = found
    saved = [b.expansions - a.expansions for a, b in zip(first, plainly, strict=True)]
    assert min(saved) >= 0 < sum(saved)
    assert [plan.routes[:1] for plan in ends] == [plan.routes[:1] for plan in plain_ends]


_SEARCHES = """
import math, sys
from pathlib import Path
from molspec import load
from molspec.files import Query
from molspec.planners.expander import Expander
from molspec.planners.search import ALGORITHMS
from molspec.planners.stock import read_stock
from tests.planners.conftest import planner

class Recorded(Expander):
    def predict(self, queries, *arguments):
        print(queries)
        return super().predict(queries, *arguments)

expander, stock = Recorded(load("retro", dtype="int8")), read_stock(Path(sys.argv[1]))
for algorithm in ALGORITHMS:
    limits = dict(routes=5, seconds=math.inf, expansions=32)
    print(planner(expander, stock, algorithm, **limits).plan(Query(sys.argv[2])).routes)
"""


def test_search_does_not_depend_on_the_hash_seed() -> None:
    """Queries and routes are equal for two hash seeds, which change the order of sets."""
    command = [sys.executable, "-c", _SEARCHES, str(STOCK), TARGETS[3]]
    processes = [
        Popen(command, stdout=PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in "12"
    ]
    first, second = (process.communicate()[0] for process in processes)
    assert first.count("Route(") > 1
    assert first == second


def test_improbable_routes_are_left_out(retro: Model) -> None:
    """The search ends without looking for less probable routes."""
    limits = {"routes": 5, "seconds": math.inf, "expansions": 48}
    plans = [
        planner(Expander(retro), read_stock(STOCK), min_share=min_share, **limits).plan(
            Query(TARGETS[3])
        )
        for min_share in (0.0, 0.3)
    ]
    every, probable = (
        [each for route in plan.routes for each in (route, *route.alternatives)] for plan in plans
    )
    threshold = every[0].log_prob + math.log(0.3)
    likely = [route.steps for route in every if route.log_prob >= threshold]
    assert [route.steps for route in probable] == likely
    assert 0 < len(probable) < len(every)
    assert plans[1].expansions < 48  # no other route can follow
    refused("min_share is 2: expected a number from 0 to 1", SearchLimits, min_share=2)


class Models(Enum):
    molspec = BackwardModel


@dataclass
class Search(search.SearchConfig):
    model_class: Models = Models.molspec
    model_dir: str = "retro"
    retro_star_config: search.RetroStarConfig = field(
        default_factory=lambda: search.RetroStarConfig(10, "HeavyAtomCost", {"nats": 0.2})
    )


def test_a_search_of_syntheseus_solves_targets_and_saves_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a value function of molspec's; another process reads the graphs."""
    monkeypatch.setattr(common, "HeavyAtomCost", HeavyAtomCost, raising=False)
    targets = tmp_path / "targets.smi"
    targets.write_text("\n".join(TARGETS[1::2]))
    search.main(
        [
            f"search_targets_file={targets}",
            f"inventory_smiles_file={STOCK}",
            f"results_dir={tmp_path}",
            f"limit_reaction_model_calls={EXPANSIONS}",
            "num_top_results=5",
            "num_routes_to_plot=0",
            "use_gpu=false",
            "append_timestamp_to_dir=false",
        ],
        config_cls=Search,
    )
    stats = json.loads((tmp_path / "molspec" / "stats.json").read_text())
    assert (stats["num_targets"], stats["num_solved_targets"]) == (2, 2)
    graph, _ = tmp_path.rglob("graph.pkl")
    read = f"import pickle; print(len(pickle.load(open({str(graph)!r}, 'rb'))))"
    nodes = subprocess.run([sys.executable, "-c", read], check=True, capture_output=True)
    assert int(nodes.stdout) > 1


def test_the_search_of_the_guide_finds_its_route(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "planning.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n([^`]*RetroStarSearch[^`]*)^```", guide, re.MULTILINE)
    exec(example, {})
    printed = capsys.readouterr().out.strip()
    assert "CC(=O)Nc1ccccc1" in printed
    assert f"It prints `{printed}`." in guide
