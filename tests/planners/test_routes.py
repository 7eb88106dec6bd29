"""The formats of routes and plans; the tests need no planning tool."""

import csv
import json
import math
import re
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest

from molspec.common.workers import DIED
from molspec.files import OutputContext, Query
from molspec.planners.disconnections import disconnections
from molspec.planners.formats import COLUMNS, FORMATS
from molspec.planners.racemates import with_racemates
from molspec.planners.routes import Check, Plan, Route, Step, arranged
from tests.files.pages import Tags

STEPS = {
    "CC(=O)Nc1ccccc1": Step("CC(=O)Nc1ccccc1", ("CC(=O)Cl", "Nc1ccccc1"), math.log(0.5)),
    "Nc1ccccc1": Step("Nc1ccccc1", ("O=[N+]([O-])c1ccccc1",), math.log(0.4)),
    "never": Step("never", ("asked",), -1.0),
}
ROUTE = Route.of("CC(=O)Nc1ccccc1", STEPS)
RACEMIC = Step(
    *("CC[C@H](C)O", ("CCC(C)Br", "CI"), -1.0, ("CCC(C)Br",)),
    check=Check(None, "CCO", math.log(0.6)),
)
OTHER = Route((replace(RACEMIC, reactants=("CCC=O",), check=Check(-0.1, "CCN", -0.01)),))
CONTEXT = OutputContext("retro", "retro", about="Found & drawn.")
PLANS = (
    Plan(
        *(1, Query("CC(=O)Nc1ccccc1", "<amide>"), (ROUTE,), 7, 1.25, 0.5),
        names={"CC(=O)Cl": "acetyl"},
        prices={"CC(=O)Cl": "12.50"},
        min_share=0.01,
    ),
    Plan(2, Query("CC("), error="not a molecule to RDKit"),
    Plan(3, Query("OCC"), (Route.of("CCO", {}),), names={"CCO": "spirit"}, prices={"CCO": "2"}),
    Plan(4, Query("CCN"), expansions=1, seconds=2, stopped="out of time", missing=("CN",)),
    Plan(
        *(5, Query("CC[C@H](C)O"), (Route((RACEMIC,), (OTHER,)),)),
        names={"CI": "methyl"},
        bought={"CI": "[2H]C([2H])([2H])I"},
    ),
)


def written(form: str) -> str:
    rendered = "".join(FORMATS[form].render(plan, CONTEXT) for plan in PLANS)
    return FORMATS[form].head(CONTEXT) + rendered + FORMATS[form].foot(CONTEXT)


def test_steps_of_a_route_lead_to_its_target() -> None:
    assert [step.product for step in ROUTE.steps] == ["Nc1ccccc1", "CC(=O)Nc1ccccc1"]
    assert set(ROUTE.leaves) == {"CC(=O)Cl", "O=[N+]([O-])c1ccccc1"}
    assert ROUTE.log_prob == pytest.approx(math.log(0.2))
    assert ROUTE.steps[1].reaction == "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1"


def test_trees_are_those_of_aizynthfinder() -> None:
    amide, broken, bought, none, racemic = map(json.loads, written("trees").splitlines())
    assert (amide["id"], amide["target"], amide["error"]) == ("<amide>", "CC(=O)Nc1ccccc1", None)
    (tree,) = amide["trees"]
    assert (tree["type"], tree["smiles"], tree["in_stock"]) == ("mol", amide["target"], False)
    assert tree["scores"] == {"log_prob": pytest.approx(math.log(0.2))}
    (last,) = tree["children"]
    assert last["type"] == "reaction"
    assert last["smiles"] == "CC(=O)Nc1ccccc1>>CC(=O)Cl.Nc1ccccc1"
    assert last["metadata"]["policy_probability"] == pytest.approx(0.5)
    chloride, aniline = last["children"]
    assert (chloride["in_stock"], chloride.get("children")) == (True, None)
    assert aniline["children"][0]["children"][0]["smiles"] == "O=[N+]([O-])c1ccccc1"
    assert broken["error"] == "not a molecule to RDKit"
    assert [(tree["smiles"], tree["in_stock"]) for tree in bought["trees"]] == [("CCO", True)]
    assert broken["trees"] == none["trees"] == []
    assert (none["stopped"], none["missing"]) == ("out of time", ["CN"])
    assert racemic["bought"] == {"CI": "[2H]C([2H])([2H])I"}
    metadata = racemic["trees"][0]["children"][0]["metadata"]
    assert (metadata["racemic"], metadata["check"]["answer"]) == (["CCC(C)Br"], "CCO")


def test_aizynthfinder_reads_the_trees() -> None:
    reactiontree = pytest.importorskip("aizynthfinder.reactiontree")
    read = reactiontree.ReactionTree.from_dict(first_tree())
    assert read.is_solved
    assert len(list(read.reactions())) == 2


@pytest.mark.filterwarnings("ignore")
def test_rxnutils_reads_the_trees() -> None:
    route = pytest.importorskip("rxnutils.routes.base").SynthesisRoute(first_tree())
    assert route.max_depth == 2
    assert route.leaves() == set(ROUTE.leaves)
    assert route.reaction_smiles() == [step.reaction for step in reversed(ROUTE.steps)]


def test_retrocast_reads_the_trees() -> None:
    (read,) = pytest.importorskip("retrocast").adapt([first_tree()], "aizynthfinder")
    assert read["route"]["target"]["smiles"] == "CC(=O)Nc1ccccc1"


def test_renkin_reads_the_trees() -> None:
    audit_route = pytest.importorskip("renkin").audit_route
    report = audit_route(json.dumps([first_tree()]), "auto", "\n".join(ROUTE.leaves))
    (read,) = json.loads(report)["routes"]
    assert read["route_tree_parseable"]
    assert read["reaction_steps_parseable"]
    assert read["stock_validation"]["status"] == "pass"


def first_tree() -> dict[str, Any]:
    (tree,) = json.loads(written("trees").splitlines()[0])["trees"]
    return tree


def test_text_shows_routes_and_errors() -> None:
    text = written("text")
    for expected in (
        "1 route of at least 1 % of the likeliest one's probability, the first after 0.50 s, "
        "7 molecules expanded in 1.25 s",
        "route 1: 2 steps, 20 %",
        " 1.   40.0 %  O=[N+]([O-])c1ccccc1>>Nc1ccccc1\n",
        " 2.   50.0 %  CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1\n",
        "to buy  O=[N+]([O-])c1ccccc1  CC(=O)Cl (acetyl, price 12.50)",
        "error: not a molecule to RDKit",
        "in stock",
        "no route found, 1 molecule expanded in 2.00 s: out of time; not in stock: CN\n",
        "  racemic or unspecified: CCC(C)Br  not confirmed, first gives CCO 60.0 %\n",
        "or 1 step, 37 %, confirmed\n",
        "CCC(C)Br  confirmed as one of the three likeliest, 90.5 %, first gives CCN 99.0 %\n",
        "CI (methyl, bought as [2H]C([2H])([2H])I)",
    ):
        assert expected in text


def test_a_target_whose_workers_died_is_not_refused() -> None:
    assert PLANS[1].is_refused
    assert not Plan(1, Query("CC"), error=DIED).is_refused


def test_jsonl_has_one_plan_per_line() -> None:
    values = [json.loads(line) for line in written("jsonl").splitlines()]
    assert [each["id"] for each in values] == ["<amide>", "2", "3", "4", "5"]
    assert (values[3]["stopped"], values[3]["missing"]) == ("out of time", ["CN"])
    assert values[4]["bought"] == {"CI": "[2H]C([2H])([2H])I"}
    assert values[4]["routes"][0]["steps"][0]["racemic"] == ["CCC(C)Br"]
    assert values[0]["routes"][0]["leaves"] == list(ROUTE.leaves)
    assert values[0]["prices"] == {"CC(=O)Cl": "12.50"}
    assert values[1]["error"] == "not a molecule to RDKit"
    assert values[2]["routes"][0].items() >= {"leaves": ["CCO"], "steps": []}.items()
    (route,) = values[4]["routes"]
    (other,) = route["alternatives"]
    assert (route["confirmed"], other["confirmed"]) == (False, True)
    check = {"log_prob": -0.1, "answer": "CCN", "answer_log_prob": -0.01, "error": None}
    assert other["steps"][0]["check"] == check


def test_table_has_one_row_per_target() -> None:
    header, amide, refused, in_stock, unsolved, racemic = csv.reader(StringIO(written("csv")))
    assert header == [*COLUMNS]
    reactions = " ".join(step.reaction for step in ROUTE.steps)
    sold = [".".join(ROUTE.leaves), str(len(ROUTE.leaves))]
    assert amide[2:10] == ["true", "2", "1.250", repr(ROUTE.log_prob), "", reactions, *sold]
    assert amide[10:] == ["; acetyl", "; 12.50", "", ""]
    assert refused[2:] == ["false", "", "0.000", *[""] * 8, "not a molecule to RDKit"]
    assert in_stock[2:4] + in_stock[8:12] == ["true", "0", "CCO", "1", "spirit", "2"]
    assert unsolved[2:] == ["false", "", "2.000", *[""] * 7, "out of time; not in stock: CN", ""]
    assert racemic[6] == "false"
    for said in ("CI is bought as [2H]C([2H])([2H])I", "CCC(C)Br is racemic or unspecified"):
        assert said in racemic[12]


def test_page_shows_drawings_and_steps() -> None:
    page = written("html")
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert page.count("<svg") == 4 + 4 + 3 + 2  # targets that are molecules, and trees
    for shown in (
        "<amide>",
        "Routes: retro",
        "Found & drawn.",
        "to buy: acetyl, price 12.50",
        "to buy: methyl, bought as [2H]C([2H])([2H])I",
        "to buy; racemic or unspecified",
        "step 2",
        "not confirmed, first gives CCO 60.0 %",
        "or 1 step, 37 %, confirmed",
        "\u2192",
    ):
        assert shown in tags.text
    tree = page[page.index('<div class="tree">') :]
    in_order = [tree.index(part) for part in ("O=[N+]", "step 1", ">Nc1ccccc1<", "step 2")]
    assert in_order == sorted(in_order)


def test_boxes_and_drawings_of_a_tree_keep_their_sizes() -> None:
    """Boxes that shrink lie over each other; so do drawings wider than their boxes."""
    page = written("html")
    sheet = page[page.index("<style>") : page.index("</style>")]
    sheet = re.sub(r"/\*.*?\*/", "", sheet, flags=re.S)
    rules = {a.strip(): b for a, b in re.findall(r"([^{}]+)\{([^{}]*)\}", sheet)}
    boxes = next(declared for name, declared in rules.items() if ".tree div" in name)
    assert re.search(r"flex:\s*none", boxes)
    assert re.search(r"[^-]width:\s*max-content", boxes)
    assert re.search(r"max-width:\s*none", rules[".tree svg"])
    tree = page[page.index('<div class="tree">') : page.index("</section>")]
    boxes_of_tree = re.findall(r'<div class="(\w+)">|</div>', tree)
    assert set(boxes_of_tree) == {"tree", "reactants", "arrow", "molecule", ""}
    assert tree.count("<svg") == boxes_of_tree.count("molecule")


def test_outcomes_are_told_apart() -> None:
    found = [plan.outcome for plan in PLANS if plan.error is None]
    assert found == ["solved", "in stock", "not solved", "solved"]


@pytest.mark.parametrize(
    ("product", "reactants", "racemic"),
    [
        ("CC(=O)O[C@@H](C)c1ccccc1", ("CC(=O)Cl", "CC(O)c1ccccc1"), ("CC(O)c1ccccc1",)),
        ("CC(=O)O[C@@H](C)c1ccccc1", ("CC(=O)Cl", "C[C@H](O)c1ccccc1"), ()),
        ("CC(=O)OC(C)c1ccccc1", ("CC(=O)Cl", "CC(O)c1ccccc1"), ()),
        ("C[C@H](O)c1ccccc1", ("CC(=O)c1ccccc1",), ()),  # a centre that the step makes
        ("C/C=C/C(=O)NC", ("CC=CC(=O)O", "CN"), ("CC=CC(=O)O",)),
        ("C[C@H](N)C(=O)O", ("C[C@H](N)C(=O)OC(C)CC",), ()),  # what leaves may be racemic
        ("C[C@H](NC(=O)[C@@H](N)CC)C(=O)O", ("CC(N)C(=O)O", "CC[C@H](N)C(=O)O"), ("CC(N)C(=O)O",)),
    ],
)
def test_racemic_reactants_of_a_chiral_product_are_marked(
    product: str, reactants: tuple[str, ...], racemic: tuple[str, ...]
) -> None:
    (step,) = with_racemates(Route((Step(product, reactants, -1.0),))).steps
    assert step.racemic == racemic


@pytest.mark.parametrize(
    ("reaction", "is_turned"),
    [
        ("OC(=O)/C=C/C.CO>>COC(=O)/C=C\\C", True),
        ("OC(=O)/C=C/C.CO>>COC(=O)/C=C/C", False),
        ("N[C@@H](C)C(=O)O.CO>>N[C@H](C)C(=O)OC", True),
        ("N[C@@H](CO)C(=O)O.CS>>CSC[C@H](N)C(=O)O", False),  # S to R, in name alone
        ("C[C@H](Br)CC.[N-]=[N+]=[N-]>>C[C@@H](N=[N+]=[N-])CC", False),
        ("O=Cc1ccccc1.COC(=O)CP>>COC(=O)/C=C/c1ccccc1", False),
        *(  # a meso form gives either; its mirror image is itself
            (f"O[C@H]1CCCC[C@H]1O.CC(=O)Cl>>{each}", False)
            for each in ("O[C@@H]1CCCC[C@@H]1OC(C)=O", "O[C@H]1CCCC[C@H]1OC(C)=O")
        ),
        ("O[C@H]1CCCC[C@@H]1O.CC(=O)Cl>>O[C@@H]1CCCC[C@H]1OC(C)=O", True),
        ("O=C1OC(=O)[C@@H]2CCCC[C@H]12.CO>>COC(=O)[C@@H]1CCCC[C@@H]1C(=O)O", False),
        ("CNC.ClC[C@H]1CO1>>CN(C)C[C@@H]1CO1", False),
    ],
)
def test_a_configuration_that_a_step_turns_without_touching_it_is_marked(
    reaction: str, is_turned: bool
) -> None:
    reactants, product = reaction.split(">>")
    (step,) = with_racemates(Route((Step(product, (*reactants.split("."),), -1.0),))).steps
    assert step.turned == ((reactants.split(".")[0],) if is_turned else ())


PYRIDINE, AMINE = "CNc1nccc(-c2cccnc2)n1", "CNc1nccc(Cl)n1"
SUZUKI = f"OB(O)c1cccnc1.{AMINE}>>{PYRIDINE}"
BENZYL, PHENOL = "CC(=O)Cl.NCc1ccccc1>>CC(=O)NCc1ccccc1", "CC(=O)Nc1ccc(O)cc1"


def route(text: str) -> Route:
    """A route of reactions with blanks between."""
    pairs = (reaction.split(">>") for reaction in text.split())
    return Route(tuple(Step(product, tuple(r.split(".")), -1.0) for r, product in pairs))


@pytest.mark.parametrize(
    ("first", "second", "are_one"),
    [
        (SUZUKI, f"CCCC[Sn](CCCC)(CCCC)c1cccnc1.{AMINE}>>{PYRIDINE}", True),
        (SUZUKI, f"CC1(C)OB(c2cccnc2)OC1(C)C.{AMINE}>>{PYRIDINE}", True),
        (SUZUKI, f"Brc1cccnc1.CNc1nccc(B(O)O)n1>>{PYRIDINE}", True),
        (SUZUKI, f"Brc1cccnc1>>OB(O)c1cccnc1 {SUZUKI}", True),
        (SUZUKI, f"CN.Clc1nccc(-c2cccnc2)n1>>{PYRIDINE}", False),
        (SUZUKI, f"CN.Clc1nccc(Cl)n1>>{AMINE} {SUZUKI}", False),
        (SUZUKI, f"CN(C(=O)OC(C)(C)C)c1nccc(-c2cccnc2)n1>>{PYRIDINE}", False),
        (BENZYL, f"N.BrCc1ccccc1>>NCc1ccccc1 {BENZYL}", False),
        (f"CC(=O)Cl.Nc1ccc(O)cc1>>{PHENOL}",
         f"CC(=O)O.COc1ccc(N)cc1>>CC(=O)Nc1ccc(OC)cc1 CC(=O)Nc1ccc(OC)cc1>>{PHENOL}", True),
        ("CI.Oc1ccccc1>>COc1ccccc1", "COS(=O)(=O)OC.Oc1ccccc1>>COc1ccccc1", True),
        ("CO.Fc1ccccc1>>COc1ccccc1", "CI.Oc1ccccc1>>COc1ccccc1", False),
        ("CCOC(=O)c1ccncc1>>O=C(O)c1ccncc1", "COC(=O)c1ccncc1>>O=C(O)c1ccncc1", True),
        ("N#Cc1ccncc1>>O=C(O)c1ccncc1", "CCOC(=O)c1ccncc1>>O=C(O)c1ccncc1", False),
        ("CC(C)(C)OC(=O)Nc1ccccc1>>Nc1ccccc1", "O=[N+]([O-])c1ccccc1>>Nc1ccccc1", False),
    ],
)  # fmt: skip
def test_routes_that_differ_in_what_leaves_are_one(first: str, second: str, are_one: bool) -> None:
    assert (disconnections(route(first)) == disconnections(route(second))) == are_one


def test_routes_are_in_order_and_confirmed_ones_first() -> None:
    short, long = route(SUZUKI), route(f"CN.Clc1nccc(Cl)n1>>{AMINE} {SUZUKI}")
    confirmed = replace(short, steps=(replace(short.steps[0], check=Check(-1.0)),))
    wrong = replace(long, steps=tuple(replace(each, check=Check()) for each in long.steps))
    prices = {"CN": 1.0, "Clc1nccc(Cl)n1": 1.0, "OB(O)c1cccnc1": 5.0, AMINE: 9.0}
    for sort, routes, expected in (
        ("steps", [long, short], [short, long]),
        ("price", [short, long], [long, short]),
        ("price", [confirmed, wrong], [confirmed, wrong]),
        ("probability", [Route(long.steps, (short,))], [Route(short.steps, (long,))]),
    ):
        assert arranged(routes, sort, prices.__getitem__) == expected
