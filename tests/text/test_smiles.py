import os
import re
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from rdkit import Chem, rdBase

from molspec.text import canonical_query, canonicalise, check_text, without_deuterium
from molspec.text.smiles import InvalidSmilesError, _written, check_beginning
from molspec.text.tokens import TokenizationError, tokenize
from tests import refused

SMILES = (Path(__file__).parents[1] / "data" / "smiles.txt").read_text().split()
CAPTURES = hasattr(rdBase, "CaptureErrorLog")


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("CC(C", "extra open parentheses near position 3"),
        ("C1CC", "unclosed ring"),
        ("CC>C(C", "extra open parentheses near position 2"),
        ("C.[Xx]", "syntax error near position 4"),
        ("c1cccc1", "Can't kekulize mol. Unkekulized atoms: 0 1 2 3 4"),
        ("FC(C)(C)(C)C", "Explicit valence for atom # 1 C, 5, is greater than permitted"),
    ],
)
def test_error_gives_the_reason_of_rdkit(smiles: str, reason: str) -> None:
    told = re.escape(reason) if CAPTURES else "it gives no reason"
    message = f"^not a molecule to RDKit: {told}$"
    refused(InvalidSmilesError, message, canonical_query, smiles)


@pytest.mark.parametrize("smiles", SMILES[::20])
def test_every_beginning_of_a_smiles_can_begin_one(smiles: str) -> None:
    tokens = tokenize(smiles)
    for count in range(1, len(tokens) + 1):
        check_beginning("".join(tokens[:count]))


@pytest.mark.parametrize(
    "text", ["CC)", "C((", "(C", ")", "=C", "C(=)", "C==", "C11", "C..", "C(C)(C)(C)(C)C", "F(C)C"]
)
def test_a_text_that_begins_no_smiles_is_refused(text: str) -> None:
    refused(InvalidSmilesError, r"^no molecule's SMILES begins with it$", check_beginning, text)


#: Queries, and how the errors of reading them begin.
REFUSED: list[tuple[Any, str]] = [
    ("", "empty: expected a SMILES string"),
    (" \t", "empty: expected a SMILES string"),
    (None, "expected a SMILES string, got NoneType"),
    (float("nan"), "expected a SMILES string, got float"),
    (b"CC", "expected a SMILES string, got bytes"),
    ("CC>>CC", "a whole reaction"),
    (">", "no molecule: '>'"),
    ("CC\ud800", "no text: holds half a surrogate pair"),
    ("[NH3]->[Pd](Cl)Cl", "it has a dative bond: "),
    ("Cl[Ni-2](Cl)<-[P+](C)(C)C", "it has a dative bond: "),
    ("N->[Pd]>C", "it has a dative bond: "),
    # With a dot in its place, bromide would be hydrogen bromide.
    ("C[Mg]~Br", "a bond ~ at a metal: "),
    ("C~[Fe]", "a bond ~ at a metal: "),
    ("CC.c1ccccc1~[Cr](~[C-]#[O+])~C", "a bond ~ at a metal: "),
    ("N~[Cu]>C", "a bond ~ at a metal: "),
    ("InChI=1S/CH4/h1H4", "not SMILES but InChI"),
    ("InChIKey=VNWKTOKETHGBQD-UHFFFAOYSA-N", "not SMILES: .*; an InChIKey tells no atoms"),
    ("CC[O\u2013]", "not a molecule to RDKit: '\u2013' is not of SMILES"),
    # RDKit reads [#6] as an atom without hydrogens.
    ("[#6:1](=O)[OH]", "not SMILES but SMARTS"),
]


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_invalid_queries_are_refused(query: Any, message: str) -> None:
    refused(InvalidSmilesError, f"^{message}", canonical_query, query)


def test_other_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    # Characters are checked before chemistry.
    refused(TokenizationError, "^not SMILES: ' ' at position 3$", canonical_query, "CC ethane")
    refused("^RDKit writes it with a dative bond, .*(->|<-)", canonical_query, "[Na+][O-]CC")
    monkeypatch.delattr(rdBase, "CaptureErrorLog", raising=False)
    refused("^not a molecule to RDKit: it gives no reason$", canonical_query, "CC(C")


#: Queries, and their canonical forms. RDKit writes ligands' bonds as dative ones, which SMILES does
#: not have.
CANONICAL = [
    ("OCC", "CCO"),
    (" OCC ", "CCO"),
    ("C1=CC=CC=C1.[Na+]", "[Na+].c1ccccc1"),
    ("[CH3:1][OH:2]", "CO"),
    ("[CH3:1][C@H:2]([CH3:3])[OH:4]", "CC(C)O"),
    ("C%(12)CCCC%(12)", "C1CCCC1"),
    ("[HH].CC", "CC.[H][H]"),
    ("CN(C)(C)[Fe]", "C[N](C)(C)[Fe]"),
    ("c1ccccc1[S@+]([O-])C", "C[S@@](=O)c1ccccc1"),
    ("[O-][s+]1cccc1.[S-][P+](C)(C)C", "CP(C)(C)=S.O=S1C=CC=C1"),
    ("[O-][S+2]([O-])(C)C.[CH2-][S+](C)C", "CS(C)(=O)=O.[CH2-][S+](C)C"),
    ("C[P+](C)([S-])[O-].C[P+]([O-])([S-])C", "CP(C)(=O)[S-].CP(C)(=O)[S-]"),
    ("O[S+][O-].C[S+](C)(C)[O-]", "C[S+](C)(C)[O-].[O-][S+]O"),  # radicals
    ("[O-][N+](C)(C)C.[O-][I+]c1ccccc1", "C[N+](C)(C)[O-].[O-][I+]c1ccccc1"),
    (
        "[Cu]123n4c5nc6[n]2c(nc7n1c(nc1[n]3c(nc4c2ccccc52)c2ccccc12)c1ccccc71)c1ccccc61",
        "c1ccc2c3[n]4c(c2c1)N=c1c2ccccc2c2[n]1[Cu]41[n]4c(c5ccccc5c4N=c4c5ccccc5c([n]41)=N3)N=2",
    ),
]


@pytest.mark.parametrize(("query", "expected"), CANONICAL)
def test_queries_become_canonical(query: str, expected: str) -> None:
    assert canonical_query(query) == canonicalise(query) == expected
    assert canonical_query(expected) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (" OCC\n", "CCO"),
        ("OCC.[CH4:1]>N", "C.CCO>N"),
        ("OCC>", "CCO>"),
        ("OCC.", "CCO"),
        ("\u00a0OCC .\x0b", "CCO"),
        ("[K+]~[K+]~O=C([O-])[O-].C", "C.O=C([O-])[O-].[K+].[K+]"),
    ],
)
def test_queries_may_have_outer_blanks_and_separate_reagents(query: str, expected: str) -> None:
    assert check_text(query) == query.strip(" .\n\u00a0\x0b")
    assert canonical_query(query) == expected


def test_other_texts_are_no_molecule_or_stay() -> None:
    for text in ("CC(C", "", "CC(=O)O CCN", "CC\ud800", "C" + "\ufffd" * 20 + "C" * 10):
        assert canonicalise(text) is None
    assert canonicalise("C1~CC1") == "C1C~C1"  # within a molecule, it is no dot
    assert canonical_query("C%(100)CCCCC%(100)") == "C1CCCCC1"


@pytest.mark.skipif(not CAPTURES, reason="this RDKit keeps its log")
def test_reason_is_given_if_rdkit_cuts_it_within_a_character() -> None:
    for length in range(1, 60):  # for every place of the cut
        text = "C" * length + "[" + "\ufffd" * 20 + "]" + "C" * 10
        refused("^not a molecule to RDKit: '\ufffd' is not of SMILES", canonical_query, text)


def test_canonical_smiles_are_unchanged(capfd: pytest.CaptureFixture[str]) -> None:
    """RDKit's log is silent, and then as before."""
    before = rdBase.LogStatus()
    for smiles in SMILES:
        canonical = canonicalise(smiles)
        on_metal = any(metal in smiles for metal in ("[Li", "[Sn", "[Zr"))
        # RDKit 2023.9 writes atoms on metals without their brackets.
        assert canonical == smiles or (on_metal and rdBase.rdkitVersion < "2024")
        assert canonical == canonicalise(str(canonical))
    assert canonicalise("CC(C") is None
    refused("^not a molecule", canonical_query, "[H].C(")
    assert rdBase.LogStatus() == before
    assert capfd.readouterr() == ("", "")


MIXTURES = "OCC.N(C)C.OCC C[C@H](F)Cl.C(/F)=C/F C1.C1 C(C.O)N c1cc.ccc1 C1CC1.C1.C1 CC. CC..O CC.C("


@pytest.mark.parametrize("smiles", MIXTURES.split())
def test_mixtures_are_written_as_by_rdkit(smiles: str) -> None:
    """Parts are parsed singly, or together if a ring or branch crosses a dot or a part is empty."""
    molecule = Chem.MolFromSmiles(smiles)
    expected = None if molecule is None else Chem.MolToSmiles(molecule)
    assert canonicalise(smiles) == expected


def test_neither_failures_nor_long_texts_stay_in_memory() -> None:
    before = _written.cache_info().currsize
    for number in range(5):
        assert canonicalise(f"C[{number}{'0' * 500}C]") is None
        assert canonicalise("C" * (1001 + number))
    assert _written.cache_info().currsize == before


def test_threads_parse_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Chem.MolFromSmiles
    being_parsed: list[str] = []

    def slow(smiles: str, **options: Any) -> Any:
        being_parsed.append(smiles)
        time.sleep(0.005)
        assert being_parsed == [smiles]
        being_parsed.remove(smiles)
        return parse(smiles, **options)

    monkeypatch.setattr(Chem, "MolFromSmiles", slow)
    before = rdBase.LogStatus()
    with ThreadPoolExecutor(4) as threads:
        results = threads.map(canonicalise, ["S" + "C" * length for length in range(40, 56)])
    assert list(results) == ["C" * length + "S" for length in range(40, 56)]
    assert rdBase.LogStatus() == before


def test_process_forked_during_parsing_can_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Chem.MolFromSmiles
    started = Event()

    def slow(smiles: str, **options: Any) -> Any:
        started.set()
        time.sleep(0.1)
        return parse(smiles, **options)

    monkeypatch.setattr(Chem, "MolFromSmiles", slow)
    before = rdBase.LogStatus()
    with ThreadPoolExecutor(1) as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about forking with threads, which is tested
        answer = threads.submit(canonicalise, "SCCF")  # not cached yet
        started.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            correct = rdBase.LogStatus() == before and canonicalise("SCCF") == "FCCS"
            os._exit(0 if correct else 1)
        assert answer.result() == "FCCS"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("smiles", "plain"),
    [
        ("[2H]C([2H])([2H])O", "CO"),
        ("[2H][C@H](C)O", "CCO"),  # no longer a stereocentre
        ("[2H]O[2H].C[C@H](N)[2H]", "CCN.O"),
        ("[2H][C@@](C)(N)O", "C[C@H](N)O"),
        ("[3H]C[13CH3]", "[3H]C[13CH3]"),
        ("C([2H]", "C([2H]"),
    ],
)
def test_hydrogen_replaces_deuterium(smiles: str, plain: str) -> None:
    assert canonicalise(without_deuterium(smiles)) == canonicalise(plain)
    assert without_deuterium(plain) == plain
