import os
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from rdkit import Chem, rdBase

from molspec.text import (
    InvalidSmilesError,
    TokenizationError,
    canonical_query,
    canonicalise,
    check_smiles,
)

SMILES = (Path(__file__).parents[1] / "data" / "smiles.txt").read_text().split()
CAPTURES = hasattr(rdBase, "CaptureErrorLog")


def test_real_smiles_pass_as_they_are() -> None:
    for smiles in SMILES:
        assert check_smiles(smiles) is smiles
    assert check_smiles("C(O)C") == "C(O)C"


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
def test_says_why_rdkit_refuses(smiles: str, reason: str) -> None:
    with pytest.raises(InvalidSmilesError) as caught:
        check_smiles(smiles)
    assert str(caught.value) == "not a molecule to RDKit: " + (
        reason if CAPTURES else "it gives no reason"
    )


def test_an_rdkit_that_keeps_its_log_still_gives_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(rdBase, "CaptureErrorLog", raising=False)
    with pytest.raises(InvalidSmilesError, match=r"^not a molecule to RDKit: it gives no reason$"):
        check_smiles("CC(C")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "empty: expected a SMILES string"),
        (" \t", "empty: expected a SMILES string"),
        (None, "expected a SMILES string, got NoneType"),
        (float("nan"), "expected a SMILES string, got float"),
        (b"CC", "expected a SMILES string, got bytes"),
        ("CC>>CC", "a whole reaction: expected one side of it"),
        (">", "no molecule: '>'"),
        ("CC\ud800", "no text: holds half a surrogate pair"),
    ],
)
def test_refuses_what_is_no_text(query: Any, message: str) -> None:
    with pytest.raises(InvalidSmilesError, match=f"^{message}$"):
        check_smiles(query)


def test_characters_are_checked_before_chemistry() -> None:
    with pytest.raises(TokenizationError, match=r"^not SMILES: ' ' at position 3$"):
        check_smiles("CC ethane")


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("OCC", "CCO"),
        ("C1=CC=CC=C1.[Na+]", "[Na+].c1ccccc1"),
        ("[CH3:1][OH:2]", "CO"),
        ("[CH3:1][C@H:2]([CH3:3])[OH:4]", "CC(C)O"),
        ("CC(C", None),
        ("", None),
        (" OCC ", "CCO"),
        ("CC(=O)O CCN", None),
        ("CC\ud800", None),
        ("C" + "\ufffd" * 20 + "C" * 10, None),
    ],
)
def test_canonicalise(smiles: str, expected: str | None) -> None:
    assert canonicalise(smiles) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (" OCC\n", "CCO"),
        ("OCC.[CH4:1]>N", "C.CCO>N"),
        ("OCC>", "CCO>"),
    ],
)
def test_queries_may_have_blanks_around_them_and_reagents_apart(query: str, expected: str) -> None:
    assert check_smiles(query) == query.strip()
    assert canonical_query(query) == expected


@pytest.mark.skipif(not CAPTURES, reason="this RDKit keeps its log")
def test_a_reason_that_rdkit_cuts_within_a_character_is_given() -> None:
    for length in range(1, 60):  # wherever it is cut
        with pytest.raises(InvalidSmilesError, match=r"^not a molecule to RDKit: syntax error"):
            check_smiles("C" * length + "[" + "\ufffd" * 20 + "]" + "C" * 10)


@pytest.mark.parametrize("query", ["[Na+][O-]CC", "CN(C)(C)[Fe]"])
def test_an_arrow_that_rdkit_writes_is_no_side_of_a_reaction(query: str) -> None:
    with pytest.raises(InvalidSmilesError, match=r"^RDKit writes it with a dative bond, .*(->|<-)"):
        canonical_query(query)


def test_canonical_smiles_stay(capfd: pytest.CaptureFixture[str]) -> None:
    for smiles in SMILES:
        canonical = canonicalise(smiles)
        on_metal = any(metal in smiles for metal in ("[Li", "[Sn", "[Zr"))
        # RDKit 2023.9 writes atoms on metals without their brackets.
        assert canonical == smiles or (on_metal and rdBase.rdkitVersion < "2024")
        assert canonical == canonicalise(str(canonical))
    assert canonicalise("CC(C") is None
    with pytest.raises(InvalidSmilesError):
        check_smiles("[H].C(")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "smiles",
    [
        "OCC.N(C)C.OCC",
        "C[C@H](F)Cl.C(/F)=C/F",
        "C1.C1",
        "C(C.O)N",
        "c1cc.ccc1",
        "C1CC1.C1.C1",
        "CC.",
        "CC..O",
        "CC.C(",
    ],
)
def test_molecules_are_made_canonical_one_by_one(smiles: str) -> None:
    """And together where a ring or a branch goes on behind the dot, or nothing does."""
    molecule = Chem.MolFromSmiles(smiles)
    written = None if molecule is None else Chem.MolToSmiles(molecule)
    assert canonicalise(smiles) == written


def test_rdkit_speaks_again_afterwards() -> None:
    before = rdBase.LogStatus()
    assert canonicalise("CC(C") is None
    assert rdBase.LogStatus() == before


def test_threads_get_their_own_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Chem.MolFromSmiles
    inside: list[str] = []

    def slow(smiles: str) -> Any:
        inside.append(smiles)
        time.sleep(0.005)
        assert inside == [smiles]
        inside.remove(smiles)
        return parse(smiles)

    monkeypatch.setattr(Chem, "MolFromSmiles", slow)
    before = rdBase.LogStatus()
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(canonicalise, ["S" + "C" * length for length in range(40, 56)])
    assert list(found) == ["C" * length + "S" for length in range(40, 56)]
    assert rdBase.LogStatus() == before


def test_a_child_forked_meanwhile_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Chem.MolFromSmiles
    begun = Event()

    def slow(smiles: str) -> Any:
        begun.set()
        time.sleep(0.1)
        return parse(smiles)

    monkeypatch.setattr(Chem, "MolFromSmiles", slow)
    before = rdBase.LogStatus()
    with ThreadPoolExecutor(1) as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking beside threads, which is what is tested
        answer = threads.submit(canonicalise, "SCCF")  # that none has asked before
        begun.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            right = rdBase.LogStatus() == before and canonicalise("SCCF") == "FCCS"
            os._exit(0 if right else 1)
        assert answer.result() == "FCCS"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
