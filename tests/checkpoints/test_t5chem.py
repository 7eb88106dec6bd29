"""Folders of T5Chem's trainer, and templates of sources."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec import checkpoints, load
from molspec.checkpoints import CheckpointError, read
from tests import refused

pytest.importorskip("transformers")

from tests.checkpoints import stored, test_pieces
from tests.drop_in import hugging_face_models as models

QUERIES = test_pieces.QUERIES
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<mask>"]
CHARACTERS = [*SPECIAL, *"Cc()1O2=Nn3[]@HF-Sl4/s.Bor+#5>"]
ATOMS = [*SPECIAL, *"Cc()1O2=Nn3FS4/s.#>", "Cl", "Br", "[C@H]", "[nH]", "[N+]", "[O-]"]


def write(folder: Path, kind: str = "simple", task: str = "product", **config: Any) -> Any:
    """Writes a model as T5Chem 1.2 does, and returns it."""
    tokens = CHARACTERS if kind == "simple" else ATOMS
    ids = {"pad_token_id": 3, "decoder_start_token_id": 3, "eos_token_id": 1}
    names = {"tokenizer": kind, "task_type": task, "vocab_size": len(tokens) + 20}
    model: Any = models.t5(seed=8, **{**ids, **names, **config}).float()
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return model


def source_ids(text: str, kind: str = "simple") -> list[int]:
    """Ids as T5Chem gives them: nine extra tokens and the prefixes follow the vocabulary."""
    tokens = CHARACTERS if kind == "simple" else ATOMS
    prefixes = ["Yield:", "Product:", "Fill-Mask:", "Classification:", "Reagents:", "Reactants:"]
    numbers = {prefix: len(tokens) + 9 + index for index, prefix in enumerate(prefixes)}
    prefix, _, rest = text.partition(":")
    parts = list(rest) if kind == "simple" else re.findall(r"\[[^]]+]|Br|Cl|.", rest)
    return [numbers[f"{prefix}:"], *map(tokens.index, parts)]


@pytest.mark.parametrize("kind", ["simple", "atom"])
def test_ids_and_answers_are_those_of_t5chem(tmp_path: Path, kind: str) -> None:
    model, loaded = write(tmp_path, kind), load(tmp_path)
    assert loaded.task == "product"
    options = {"num_beams": 5, "num_return_sequences": 5, "length_penalty": 0.0}
    finished = []
    for query in ["CC(=O)Cl.Nc1ccccc1", "C[C@H](N)CBr", "Cc1ccc[nH]1"]:
        given = source_ids(f"Product:{query}>>", kind)
        assert loaded.reader.source(query).encoder_ids == given
        # It writes PAD after a target, and then more of them.
        beams = model.generate(
            torch.tensor([given]), eos_token_id=3, pad_token_id=3, max_new_tokens=12, **options
        )
        (result,) = loaded.predict([query], n_best=5, max_length=12, finished="separate")
        texts = [
            "".join(loaded.vocabulary.tokens[index] for index in beam if index > 4)
            for beam in beams.tolist()
        ]
        assert [each.smiles for each in result.predictions] == texts
        finished += [each.finished for each in result.predictions]
    assert any(finished)


def test_reads_the_vocabulary_of_torchtext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    expected = read(tmp_path).vocabulary
    (tmp_path / "vocab.txt").unlink()
    with monkeypatch.context() as patched:
        vocabulary = stored.stand_in("torchtext.vocab", "Vocab", patched)()
        vocabulary.itos = CHARACTERS
        torch.save(vocabulary, tmp_path / "vocab.pt")
    assert read(tmp_path).vocabulary == expected


@pytest.mark.parametrize(
    ("task", "ours", "query", "text"),
    [
        ("reactants", "retro", "CCO", "Reactants:CCO"),
        ("reagents", None, "Reagents:CCO>>CC=O", "Reagents:CCO>>CC=O"),
        ("mixed", None, "Product:CCO>>", "Product:CCO>>"),
    ],
)
def test_tasks_have_their_prefixes(
    tmp_path: Path, task: str, ours: str | None, query: str, text: str
) -> None:
    write(tmp_path, task=task)
    loaded = load(tmp_path)
    assert loaded.task == ours
    assert loaded.reader.source(query).encoder_ids == source_ids(text)


def test_queries_are_smiles_alone(tmp_path: Path) -> None:
    write(tmp_path)
    loaded = load(tmp_path)
    results = loaded.predict(["Product:CCO>>", "Product:CCO", "OCC", "C(C"], max_length=3)
    first, second, none, last = [result.error for result in results]
    assert first == (
        "'>' in it: expected reactants and reagents joined by dots; the model reads them as "
        "Product:{}>>"
    )
    assert none is None
    assert all(str(error).startswith("not a molecule") for error in (second, last))
    given = loaded.reader.source("OCC", canonical=True)
    assert given.encoder_ids == source_ids("Product:CCO>>")
    assert loaded.predict(["OCC"], canonical_queries=True, augmentations=3, max_length=3)


def test_template_is_kept_and_can_be_changed(tmp_path: Path) -> None:
    write(tmp_path / "t5")
    own = checkpoints.convert(tmp_path / "t5", tmp_path / "own")
    assert read(tmp_path / "own").template == "Product:{}>>"
    assert load(tmp_path / "own").predict(QUERIES, max_length=9) == load(tmp_path / "t5").predict(
        QUERIES, max_length=9
    )
    other = checkpoints.convert(tmp_path / "t5", tmp_path / "other", template="Product:{}")
    assert load(tmp_path / "other").reader.source("CO").encoder_ids == source_ids("Product:CO")
    assert other.fingerprint() != own.fingerprint()  # answers of a cache are of one template


def test_learned_pieces_take_a_template(tmp_path: Path) -> None:
    _, tokenizer = test_pieces.write(tmp_path / "t5", "t5")
    checkpoints.convert(tmp_path / "t5", tmp_path / "own", template="Product:{}C ")
    loaded = load(tmp_path / "own")
    assert loaded.reader.source("CCO").encoder_ids == tokenizer("Product:CCOC ").input_ids
    for template, fault in {"Product:": "one {} for the query", "{}\N{SNOWMAN}": "U+2603"}.items():
        with pytest.raises(CheckpointError, match=f"template is .*{re.escape(fault)}"):
            checkpoints.convert(tmp_path / "t5", tmp_path / "bad", template=template)


UNUSABLE: dict[str, dict[str, Any]] = {
    "tokenizer is 'selfies': expected simple or atom": {"tokenizer": "selfies"},
    "task_type is 'regression': expected one that writes SMILES: product": {
        "task_type": "regression"
    },
    "vocabulary is not that of T5Chem": {"pad_token_id": 1},
    "and a vocab_size of all tokens": {"vocab_size": 40},
    "no vocab.txt and no vocab.pt in it": {},
}


@pytest.mark.parametrize("message", UNUSABLE)
def test_error_names_unusable_folder(tmp_path: Path, message: str) -> None:
    write(tmp_path)
    if changed := UNUSABLE[message]:
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
        (tmp_path / "generation_config.json").unlink()
    else:
        (tmp_path / "vocab.txt").unlink()
    refused(CheckpointError, message, read, tmp_path)
