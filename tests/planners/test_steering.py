"""What a person asks of routes: bonds, steps, a target that is made although it is for sale."""

from typing import Any

import pytest

from molspec.files import Query
from molspec.planners.expander import Expander
from molspec.planners.routes import Route, SearchLimits, Step
from tests import refused
from tests.planners.conftest import needs_syntheseus, planner

AMIDE = "O=C(NCc1ccccc1)c1ccc(OCc2ccccc2)cc1"
#: The same with atom maps at its amide bond.
MAPPED = "O=[C:7]([NH:3]Cc1ccccc1)c1ccc(OCc2ccccc2)cc1"
STOCK = (
    *("NCc1ccccc1", "O=C(O)c1ccc(O)cc1", "BrCc1ccccc1", "O=C(Cl)c1ccc(OCc2ccccc2)cc1"),
    *("COC(=O)c1ccc(OCc2ccccc2)cc1", "NC(=O)c1ccc(OCc2ccccc2)cc1"),
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"keep_bonds": "1"}, "keep_bonds is '1': expected pairs of atoms, as 1-2,5-6"),
        ({"break_bonds": "1-2;"}, "break_bonds is '1-2;': expected pairs"),
        ({"keep_bonds": "1-2", "break_bonds": "2-1"}, "'2-1': keep_bonds has one"),
        ({"max_steps": 0}, "max_steps is 0: expected a whole number of at least 1"),
    ],
)
def test_wrong_limits_are_refused(values: dict[str, Any], message: str) -> None:
    refused(message, SearchLimits, **values)


def test_depth_is_that_of_the_longest_row() -> None:
    steps = (Step("C", ("A", "B"), 0), Step("D", ("A",), 0), Step("E", ("C", "D"), 0))
    assert Route(steps).depth == 2
    assert Route(()).depth == 0


@pytest.fixture(scope="module")
def expander() -> Expander:
    return Expander.load("retro", dtype="int8")


@needs_syntheseus
@pytest.mark.filterwarnings("default")
class TestWithSyntheseus:
    def planner(
        self,
        expander: Expander,
        algorithm: str = "retro-star",
        stock: tuple[str, ...] = STOCK,
        **limits: Any,
    ) -> Any:
        return planner(expander, stock, algorithm, 10, **{"expansions": 20, **limits})

    def test_bonds_are_followed_by_their_atoms(self) -> None:
        from molspec.planners.bonds import is_followed, marked, must_be_made, reactants_of
        from molspec.text import canonical_query

        target = canonical_query(MAPPED)
        by_map = marked(target, MAPPED, SearchLimits(keep_bonds="3-7", break_bonds=""))
        assert by_map == marked(target, AMIDE, SearchLimits(keep_bonds="2-1"))
        coupling = ("NCc1ccccc1", "O=C(Cl)c1ccc(OCc2ccccc2)cc1")
        assert reactants_of(by_map, coupling) is None
        ether = ("BrCc1ccccc1", "O=C(NCc1ccccc1)c1ccc(O)cc1")
        bromide, phenol = reactants_of(by_map, ether) or ()
        assert (bromide.identifier, phenol.identifier) == ("", "keep:1-2")
        to_break = marked(target, MAPPED, SearchLimits(break_bonds="3-7"))
        assert [must_be_made(each) for each in (to_break, by_map, bromide)] == [True, False, False]
        assert is_followed(to_break, Route((Step(target, coupling, 0),)))
        assert not is_followed(to_break, Route((Step(target, ether, 0),)))
        # It breaks the bond, and then makes the target from itself.
        again = Step(coupling[0], (target,), 0)
        assert not is_followed(to_break, Route((again, Step(target, coupling, 0))))

    @pytest.mark.parametrize("algorithm", ["retro-star", "mcts"])
    def test_routes_keep_and_break_bonds(self, expander: Expander, algorithm: str) -> None:
        usual = self.planner(expander, algorithm).plan(Query(AMIDE)).routes[0].steps[-1]
        assert "NCc1ccccc1" in usual.reactants
        kept = self.planner(expander, algorithm, keep_bonds="1-2").plan(Query(AMIDE))
        assert kept.note == "keep bonds 1-2"
        assert all("NCc1ccccc1" not in route.steps[-1].reactants for route in kept.routes)
        broken = self.planner(expander, algorithm, break_bonds="1-2,14-15").plan(Query(AMIDE))
        assert broken.routes
        for route in broken.routes:
            assert {"NCc1ccccc1", "BrCc1ccccc1", "O=C(O)c1ccc(O)cc1"} <= {*route.leaves}
        # One in a ring.
        ring = self.planner(expander, algorithm, break_bonds="12-13").plan(Query(AMIDE))
        assert (ring.routes, ring.note) == ((), "break bonds 12-13")
        mapped = self.planner(expander, algorithm, break_bonds="3-7").plan(Query(MAPPED))
        assert "NCc1ccccc1" in mapped.routes[0].steps[-1].reactants

    @pytest.mark.parametrize("bonds", ["0-30", "0-2"])
    def test_a_bond_that_is_not_there_is_an_error(self, expander: Expander, bonds: str) -> None:
        steered = self.planner(expander, keep_bonds=bonds)
        assert steered.plan(Query(AMIDE)).error == (
            f"keep_bonds is {bonds!r}: expected bonds between the target's atoms, counted from 0"
        )
        assert "the target's atom maps" in steered.plan(Query(MAPPED)).error

    def test_a_map_of_two_atoms_is_an_error(self, expander: Expander) -> None:
        steered = self.planner(expander, keep_bonds="1-3")
        plan = steered.plan(Query("[CH3:1][C:1](=O)[NH:3]c1ccccc1"))
        assert plan.error == "keep_bonds is '1-3': 1 maps several atoms"

    @pytest.mark.parametrize("algorithm", ["retro-star", "mcts"])
    def test_a_target_in_stock_is_planned_all_the_same(
        self, expander: Expander, algorithm: str
    ) -> None:
        stock = (*STOCK, "O=C(NCc1ccccc1)c1ccc(OCc2ccccc2)cc1")
        assert self.planner(expander, algorithm, stock).plan(Query(MAPPED)).is_in_stock
        plan = self.planner(expander, algorithm, stock, exclude_target=True).plan(Query(MAPPED))
        assert plan.routes
        assert all(stock[-1] not in route.leaves and route.steps for route in plan.routes)

    @pytest.mark.parametrize("algorithm", ["retro-star", "mcts"])
    def test_steps_in_a_row_are_limited(self, expander: Expander, algorithm: str) -> None:
        """And a search ends when nothing is left to expand."""
        free = self.planner(expander, algorithm).plan(Query(AMIDE))
        assert max(route.depth for route in free.routes) > 1
        limited = self.planner(expander, algorithm, max_steps=1, expansions=None)
        plan = limited.plan(Query(AMIDE))
        assert plan.expansions == 1
        assert {route.depth for route in plan.routes} == {1}
