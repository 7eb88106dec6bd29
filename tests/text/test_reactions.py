"""The sides of whole reactions."""

import pytest

from molspec.common.task import Task
from molspec.text.reactions import reaction_part
from molspec.text.tokens import extension_of
from tests.fuzz.lengths import check_time

MAPPED = "[CH3:1][C:2](=[O:3])[Cl:9].[NH3:4].CCN(CC)CC>O>[CH3:1][C:2](=[O:3])[NH2:4].CCN(CC)CC"


@pytest.mark.parametrize(
    ("reaction", "task", "query", "answer"),
    [
        ("CO.C>N>CO.CN", "retro", "CN", "CO.C"),
        ("CO.C>N>CO.CN", "product", "CO.C.N", "CN"),
        (MAPPED, "retro", "CC(N)=O", "CC(=O)Cl.N"),
        (MAPPED, "product", "CC(=O)Cl.CCN(CC)CC.N.O", "CC(N)=O"),
        ("CCO>>CC=O 1-2-1.0", "retro", "CC=O", "CCO"),
        ("C C O > > C C = O", "retro", "CC=O", "CCO"),
        ("C C O >> C C = O", "product", "CCO", "CC=O"),
        ("CCO>>CC=O |f:0.1|", "product", "CCO", "CC=O"),
        ("CCO.[NH3]->[Pd]>>CC=O", "retro", "CC=O", "CCO.[NH3]->[Pd]"),
        (">>CC=O", "retro", "CC=O", ""),
    ],
)
def test_task_decides_the_side(reaction: str, task: Task, query: str, answer: str) -> None:
    assert reaction_part(reaction, task) == query
    assert reaction_part(reaction, task, answer=True) == answer


def test_other_text_is_unchanged() -> None:
    for text in ("CCO", "CCO>N", "[CH3:1]O", "[NH3]->[Pd]", "two words", ""):
        assert reaction_part(text, "retro") == text
    assert reaction_part("CCO>>CC=O", None) == "CCO>>CC=O"


def test_the_time_is_linear_in_the_places_and_in_the_mapped_molecules() -> None:
    check_time(lambda length: extension_of("CC |" + "(" * length), 1 << 16, "places")
    sides = "{0}>>{0}".format
    check_time(lambda n: reaction_part(sides(".[CH4:1]" * n), "retro", answer=True), 8192, "maps")
