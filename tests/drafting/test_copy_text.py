"""Sources written from other atoms: the same molecules, as RDKit reads them."""

from __future__ import annotations

import pytest
from rdkit import Chem

from molspec.drafting import guess_model
from molspec.text import Vocabulary

TOKENS = (
    *("<pad>", "<bos>", "<eos>", "?", "C", "c", "N", "n", "[nH]", "O", "o", "S", "s", "F", "Cl"),
    *("Br", "(", ")", "=", "#", "-", ".", "[N+]", "[O-]", "[Na+]", "B", "P"),
    *("1", "2", "3", "4", "5", "6", "%10"),
)
VOCABULARY = Vocabulary(TOKENS, unk_id=3)
MODEL = guess_model(VOCABULARY, None)
OPEN = VOCABULARY.size
ATOMS = {i for i, token in enumerate(TOKENS) if token[0] == "[" or token.isalpha()}

MOLECULES = (
    "CCO",
    "CC(=O)OC(C)(C)C",
    "c1ccc2c(c1)cc[nH]2",
    "O=[N+]([O-])c1ccc(-c2ccncc2)cc1",
    "C1CC2CCC1C2",
    "C12C3C4C1C5C2C3C45",
    "CC1=C2CC(=O)CC2=CC1",
    "N#CC1(c2cc(Cl)sc2Br)CCN(S(=O)(=O)c2ccco2)CC1",
    "C1CC%10CC1CC%10",
    "FB(F)F.CCOCC.[Na+].OP(=O)(O)O",
)


def writings(smiles: str) -> tuple[list[list[int]], list[list[int]]]:
    """The symbols of every writing, the source's first, and the atoms' source positions."""
    symbols, atoms = MODEL.copy_text(VOCABULARY.encode(smiles))
    made: tuple[list[list[int]], list[list[int]]] = [[]], [[]]
    for symbol, atom in zip(symbols, atoms, strict=True):
        if symbol in (VOCABULARY.eos_id, VOCABULARY.pad_id):
            made[0].append([])
            made[1].append([])
        else:
            made[0][-1].append(symbol)
            made[1][-1].append(atom)
    return made[0][:-1], made[1][:-1]


def spelt(symbols: list[int]) -> str:
    """Symbols as SMILES: rings take the lowest free number, as RDKit numbers them."""
    text, rings = "", list[int]()
    for symbol in symbols:
        if symbol < OPEN:
            text += TOKENS[symbol]
            if (number_text := TOKENS[symbol].lstrip("%")).isdigit():  # not the lowest free one
                rings.append(int(number_text))
            continue
        if symbol == OPEN:
            number = next(number for number in range(1, 100) if number not in rings)
            rings.append(number)
        else:
            number = rings.pop(len(rings) - (symbol - OPEN))
        text += str(number) if number < 10 else f"%{number}"
    return text


def canonical(smiles: str) -> str:
    return Chem.CanonSmiles(smiles)


@pytest.mark.parametrize("smiles", MOLECULES)
def test_every_writing_is_a_molecule_of_the_source(smiles: str) -> None:
    molecules = {canonical(molecule) for molecule in smiles.split(".")}
    given, *rewritten = writings(smiles)[0]
    assert canonical(spelt(given)) == canonical(smiles)
    assert {canonical(spelt(symbols)) for symbols in rewritten} == molecules
    assert {symbols[0] for symbols in rewritten} == set(VOCABULARY.encode(smiles)) & ATOMS


@pytest.mark.parametrize("smiles", MOLECULES)
def test_atoms_point_into_the_source(smiles: str) -> None:
    source_ids = VOCABULARY.encode(smiles)
    for symbols, atoms in zip(*writings(smiles), strict=True):
        for symbol, atom in zip(symbols, atoms, strict=True):
            if symbol in ATOMS:
                assert source_ids[atom] == symbol


def test_writings_differ() -> None:
    texts = [tuple(symbols) for symbols in writings("c1ccccc1C(C)(C)C")[0][1:]]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("tokens", ["C (", "C )", "C 1", "= C", "C = )", "( C )", "1 C 1", "C . ?"])
def test_what_is_no_smiles_stands_as_it_is(tokens: str) -> None:
    source_ids = [TOKENS.index(token) for token in tokens.split()]
    symbols, _ = MODEL.copy_text(source_ids)
    assert symbols[-1] == VOCABULARY.eos_id
    assert len(symbols) == len(source_ids) + 1


def test_long_sources_are_bounded() -> None:
    for length in (0, 1, 200, 500, 1000, 3000):
        symbols, atoms = MODEL.copy_text(VOCABULARY.encode("C" * length) if length else [])
        assert len(symbols) == len(atoms) <= max(4096, length + 1)
