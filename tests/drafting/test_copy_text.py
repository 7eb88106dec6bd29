"""Sources rewritten from other atoms: according to RDKit, they are the same molecules."""

import pytest
from rdkit import Chem

from molspec.drafting import guess_model
from molspec.text import Vocabulary

TOKENS = (
    *("<pad>", "<bos>", "<eos>", "?", "C", "c", "N", "n", "[nH]", "O", "o", "S", "s", "F", "Cl"),
    *("Br", "(", ")", "=", "#", "-", ".", "[N+]", "[O-]", "[Na+]", "B", "P"),
    *("1", "2", "3", "4", "5", "6", "%10", "*"),
)
VOCABULARY = Vocabulary(TOKENS, unk_id=3)
MODEL = guess_model(VOCABULARY, None)
RING_OPENING = VOCABULARY.size
ATOMS = {i for i, token in enumerate(TOKENS) if token[0] in "[*" or token.isalpha()}

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
    "C(*)OC",
    "FB(F)F.CCOCC.[Na+].OP(=O)(O)O",
)


def spellings(smiles: str) -> tuple[list[list[int]], list[list[int]]]:
    """The symbols of each spelling, the source's own first, and the atoms' source positions."""
    symbols, atoms = MODEL.copy_text(VOCABULARY.encode(smiles))
    lists: tuple[list[list[int]], list[list[int]]] = [[]], [[]]
    for symbol, atom in zip(symbols, atoms, strict=True):
        if symbol in (VOCABULARY.eos_id, VOCABULARY.pad_id):
            lists[0].append([])
            lists[1].append([])
        else:
            lists[0][-1].append(symbol)
            lists[1][-1].append(atom)
    return lists[0][:-1], lists[1][:-1]


def to_smiles(symbols: list[int]) -> str:
    """Writes symbols as SMILES; a ring gets the lowest free number, as in RDKit."""
    text, rings = "", list[int]()
    for symbol in symbols:
        if symbol < RING_OPENING:
            text += TOKENS[symbol]
            if (number_text := TOKENS[symbol].lstrip("%")).isdigit():  # a ring number of the source
                rings.append(int(number_text))
            continue
        if symbol == RING_OPENING:
            number = next(number for number in range(1, 100) if number not in rings)
            rings.append(number)
        else:
            number = rings.pop(len(rings) - (symbol - RING_OPENING))
        text += str(number) if number < 10 else f"%{number}"
    return text


def canonical(smiles: str) -> str:
    return Chem.CanonSmiles(smiles)


@pytest.mark.parametrize("smiles", MOLECULES)
def test_every_spelling_is_a_molecule_of_the_source(smiles: str) -> None:
    molecules = {canonical(molecule) for molecule in smiles.split(".")}
    original, *rewritten = spellings(smiles)[0]
    assert canonical(to_smiles(original)) == canonical(smiles)
    assert {canonical(to_smiles(symbols)) for symbols in rewritten} == molecules
    assert {symbols[0] for symbols in rewritten} == set(VOCABULARY.encode(smiles)) & ATOMS


@pytest.mark.parametrize("smiles", MOLECULES)
def test_atoms_point_to_their_source_tokens(smiles: str) -> None:
    source_ids = VOCABULARY.encode(smiles)
    for symbols, atoms in zip(*spellings(smiles), strict=True):
        for symbol, atom in zip(symbols, atoms, strict=True):
            if symbol in ATOMS:
                assert source_ids[atom] == symbol


def test_spellings_differ() -> None:
    texts = [tuple(symbols) for symbols in spellings("c1ccccc1C(C)(C)C")[0][1:]]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("tokens", ["C (", "C )", "C 1", "= C", "C = )", "( C )", "1 C 1", "C . ?"])
def test_invalid_smiles_is_not_rewritten(tokens: str) -> None:
    source_ids = [TOKENS.index(token) for token in tokens.split()]
    symbols, _ = MODEL.copy_text(source_ids)
    assert symbols[-1] == VOCABULARY.eos_id
    assert len(symbols) == len(source_ids) + 1


def test_copy_text_length_is_bounded() -> None:
    for length in (0, 1, 200, 500, 1000, 3000):
        symbols, atoms = MODEL.copy_text(VOCABULARY.encode("C" * length) if length else [])
        assert len(symbols) == len(atoms) <= max(4096, length + 1)
