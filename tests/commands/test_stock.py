"""`molspec stock`: what reactions begin with, which `plan` reads."""

from tests.commands.conftest import write
from tests.conftest import Run

ACETYL, ACID = "[CH3:1][C:2](=[O:3])", "[CH3:1][C:2](=[O:3])[Cl:9]"
REACTIONS = (
    f"{ACID}.[NH2:4][CH3:5].CCOCC>[Na+]>{ACETYL}[NH:4][CH3:5]",
    f"{ACID}.[NH2:4][CH2:5]C.CCOCC>[Na+]>{ACETYL}[NH:4][CH2:5]C",
    f"[Na+].[NH2:4][CH2:5]C>{ACID}>{ACETYL}[NH:4][CH2:5]C",  # again
    "CCO.CC(=O)Cl>>CCOC(C)=O",  # without maps
    f"{ACID}.[OH:4][Po]>>{ACETYL}[OH:4]",  # a radical
    "[CH3:1][CH2:2]*>>[CH3:1][CH2:2]O",
    "[CH3:1][CH3:2].[OH2:3]>>[CH2:2]([CH3:1])[OH:3].[CH3:1][CH3:2]",
    "[CH3:1][CH3:2]C(>>[CH3:1][CH3:2]",
    f"[CH3:1]{'C' * 19}[OH:3]>>[CH3:1]{'C' * 19}[Cl:3]",  # too large
)


def test_molecules_that_reactions_begin_with_are_counted(run: Run) -> None:
    write("a.rsmi", "\n".join(REACTIONS))
    write("out.smi", "NC\nC(Cl)(C)=O name\n")
    write("more.smi", "CCN\n")
    sold = ["CC(=O)Cl\tin 3 products", "CC\tin 1 product", "CCN\tin 1 product"]
    sold += ["CN\tin 1 product", "O\tin 1 product"]
    for flags, expected in (
        ("--least 1", sold),
        ("", sold[:1]),
        ("--least 1 --exclude out.smi --exclude more.smi", [sold[1], sold[4]]),
        ("--least 1 --exclude out.smi --exclude more.smi --always 3", [sold[0], sold[1], sold[4]]),
    ):
        assert run(f"stock a.rsmi --most-atoms 20 {flags}") == 0
        assert run.out.splitlines() == ["smiles\tname", *expected]
