"""Tokens, SMILES, JSON objects and journals."""

from contextlib import suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from rdkit import Chem

from molspec.checkpoints import CheckpointError, files
from molspec.common import tables
from molspec.common.journal import Journal, Kind
from molspec.files import sdf, sources
from molspec.text import Vocabulary, bounds, canonical_query, canonicalise, other_spellings
from molspec.text.smiles import InvalidSmilesError, check_sides, sides_of
from molspec.text.tokens import TokenizationError, tokenize
from tests.fuzz.draw import Draw

_REFUSED = (InvalidSmilesError, TokenizationError)
_FOLDER = TemporaryDirectory()
_FILE = Path(_FOLDER.name) / "file"
_SETTINGS = {"seed": 1, "words": ["a", None]}
_RECORDS: Kind[object] = Kind("a test", lambda value: value, lambda value: value)


def tokenizer(draw: Draw) -> None:
    """Joined tokens are the text; a vocabulary decodes what it has encoded."""
    text = draw.text(80)
    with suppress(TokenizationError):
        tokens = tokenize(text)
        assert "".join(tokens) == text
        known = list(dict.fromkeys([*tokens[: draw.below(9)], "C"]))
        vocabulary = Vocabulary(("<pad>", "<bos>", "<eos>", *known))
        assert vocabulary.decode(vocabulary.encode(text)) == text
    tokens = draw.some(9, lambda: draw.text(3))
    with suppress(ValueError):
        vocabulary = Vocabulary(tuple(tokens), draw.integer(), draw.integer(), draw.integer())
        vocabulary.decode([draw.below(vocabulary.size)])
        vocabulary.encode(text)


def smiles(draw: Draw) -> None:
    """A valid text has a valid canonical form; an invalid one gives an error with a reason."""
    text = draw.text(80)
    canonical = canonicalise(text)
    assert canonical is None or canonicalise(canonical) is not None
    try:
        query = canonical_query(text)
    except _REFUSED as error:
        assert str(error)
        return
    check_sides(sides_of(query))
    if ">" not in query:
        for other in other_spellings(query, 3):
            assert canonicalise(other) is not None


def json(draw: Draw) -> None:
    """A damaged file gives an object, or an error that names the file."""
    nested = draw.below(4) * 40_000
    _FILE.write_bytes(b"[" * nested + draw.damaged(b'{"a": [1, {"b": null}], "c": "\\u00e9"}'))
    try:
        assert isinstance(files.read_object(_FILE), dict)
    except CheckpointError as error:
        assert str(error).startswith("file ")


def journal(draw: Draw) -> None:
    """A damaged journal is refused and unchanged, or its whole lines are read and it resumes."""
    _FILE.unlink(missing_ok=True)
    new = Journal(_FILE, _SETTINGS, _RECORDS)
    with new.appending() as append:
        for value in range(3):
            append([value, "x"])
    content = draw.damaged(_FILE.read_bytes())
    _FILE.write_bytes(content)
    try:
        records = list(Journal(_FILE, _SETTINGS, _RECORDS).records())
    except ValueError as error:
        assert str(_FILE) in str(error)
        assert _FILE.read_bytes() == content
        return
    resumed = Journal(_FILE, _SETTINGS, _RECORDS)
    with resumed.appending() as append:
        append("last")
    values = list(Journal(_FILE, _SETTINGS, _RECORDS).records())
    assert values == [*records, "last"]


def rings(draw: Draw) -> None:
    """RDKit finds no more shortest rings in a text than are counted before it looks for them."""
    atoms = 3 + draw.below(70)
    bonds = [(place, draw.below(atoms)) for place in range(atoms) for _ in range(draw.below(3))]
    closures = [""] * atoms
    for number, pair in enumerate(sorted({(min(pair), max(pair)) for pair in bonds})[:89], 10):
        if pair[0] + 1 < pair[1]:
            for place in pair:
                closures[place] += f"%{number}"
    text = "".join(f"[C]{each}" for each in closures)
    if bounds.too_large(text) is None:
        molecule = Chem.MolFromSmiles(text, sanitize=False)
        counted = bounds._shortest_rings(molecule)
        assert len(Chem.GetSymmSSSR(molecule)) <= counted


def records(draw: Draw) -> None:
    """Any table or SDF gives queries, or an error that names it; no record is longer than told."""
    form = draw.choice(["csv", "tsv", "sdf"])
    part = draw.choice(['"a\n', "a,b\n", "\n", '"",', "$$$$\n", "M  END\n"]) * draw.below(2000)
    lines = StringIO("smiles,id\n" + draw.text() + part + draw.text())
    with (
        mock.patch.object(tables, "LONGEST_ROW", 1000),
        mock.patch.object(sdf, "LONGEST_RECORD", 1000),
    ):
        try:
            queries = list(sources.QueryFile("any", form, iter(lines.readline, "")).queries())
        except ValueError as error:
            assert str(error)
            return
    assert all(len(query.smiles) + len(query.name) <= 2000 for query in queries)
