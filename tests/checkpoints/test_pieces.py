"""Folders whose tokens are learned pieces of text, saved with transformers."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec import checkpoints, load
from molspec.checkpoints import CheckpointError, read
from molspec.files import open_source
from molspec.text import PieceVocabulary, TokenizationError
from molspec.training import PrepareOptions, prepare

pytest.importorskip("transformers")

from tokenizers import Regex, Tokenizer, decoders, models as kinds, pre_tokenizers
from tokenizers.processors import RobertaProcessing, TemplateProcessing
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordLevelTrainer, WordPieceTrainer
from transformers import PreTrainedTokenizerFast

from tests import refused
from tests.drop_in import hugging_face_models as models

SMILES = (Path(__file__).parents[1] / "data" / "smiles.txt").read_text().split()
QUERIES = [smiles for smiles in SMILES if len(smiles) < 30][:4]
SIZE = 100


def bpe() -> Tokenizer:
    """Byte-level, as in BART and RoBERTa, with BOS and EOS around a text."""
    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(SMILES, BpeTrainer(vocab_size=60, special_tokens=special))
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def unigram() -> Tokenizer:
    """SentencePiece, as in T5, with EOS after a text."""
    tokenizer = Tokenizer(kinds.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator([*SMILES, "Product:"], trainer)
    tokenizer.post_processor = TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(kinds.WordPiece(unk_token="<unk>"))
    tokenizer.decoder = decoders.WordPiece()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(SMILES, WordPieceTrainer(vocab_size=90, special_tokens=special))
    tokenizer.post_processor = TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def words() -> Tokenizer:
    """A token an atom or a sign, as a vocabulary of SMILES has them."""
    tokenizer = Tokenizer(kinds.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\[[^]]+]|Br|Cl|."), "isolated")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(SMILES, WordLevelTrainer(vocab_size=90, special_tokens=special))
    ends = [("<s>", 0), ("</s>", 2)]
    tokenizer.post_processor = TemplateProcessing("<s> $A </s>", special_tokens=ends)
    return tokenizer


#: Kinds of models and their tokenizers.
FOLDERS = {
    "bart": ("bart", bpe),
    "t5": ("t5", unigram),
    "t5 v1.1": ("t5 v1.1", word_piece),
    "words": ("bart", words),
}


def write(folder: Path, kind: str) -> tuple[Any, Any]:
    """Writes a model and a tokenizer of transformers to the folder, and returns them."""
    name, tokens = FOLDERS[kind]
    model: Any = models.MODELS[name](vocab_size=SIZE).float()
    model.save_pretrained(folder)
    special_tokens = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens(), **special_tokens)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


@pytest.mark.parametrize("kind", FOLDERS)
def test_token_ids_and_beams_match_transformers(tmp_path: Path, kind: str) -> None:
    model, tokenizer = write(tmp_path, kind)
    loaded = load(tmp_path)
    options = {"num_beams": 5, "num_return_sequences": 5, "length_penalty": 0.0}
    for query in QUERIES:
        source_ids = tokenizer(query).input_ids
        assert loaded.reader.source(query).encoder_ids == source_ids
        assert kind == "words" or len(source_ids) < len(query)  # pieces are longer than characters
        generated = model.generate(torch.tensor([source_ids]), max_new_tokens=12, **options)
        (result,) = loaded.predict([query], n_best=5, max_length=12, finished="separate")
        decoded = tokenizer.batch_decode(generated, skip_special_tokens=True)
        if kind == "words":  # which transformers joins by blanks
            decoded = [loaded.vocabulary.decode(row) for row in generated[:, 1:].tolist()]
        assert [prediction.smiles for prediction in result.predictions] == decoded


def test_reads_words_beside_smiles_and_refuses_unknown_text(tmp_path: Path) -> None:
    _, tokenizer = write(tmp_path, "t5")
    loaded = load(tmp_path)
    query = "Product:" + QUERIES[0]
    assert loaded.reader.source(query).encoder_ids == tokenizer(query).input_ids
    for words in ("Product CCO", "Product CC=O"):
        assert loaded.reader.source(words).encoder_ids == tokenizer(words).input_ids
        assert loaded.log_probs([query], [words])[0].error is None
    bad = [" ", "C\N{SNOWMAN}C", "C</s>C", "C\ud800"]
    errors = [result.error for result in loaded.predict([*bad, query], max_length=5)]
    assert errors == [
        "empty: expected a SMILES string",
        "not in the model's vocabulary: '<U+2603>'",
        "not in the model's vocabulary: '</s>'",
        "no text: holds half a surrogate pair",
        None,
    ]


@pytest.mark.parametrize("query", ["REACTANT:CC REAGENT: ", " CC", "CC  O ", "CC"])
def test_blanks_around_a_query_count(tmp_path: Path, query: str) -> None:
    words = ["REACTANT:CC REAGENT: ", "CC O ", " O", *SMILES]
    tokenizer = Tokenizer(kinds.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trainer = UnigramTrainer(vocab_size=80, special_tokens=["<pad>", "</s>", "<unk>"])
    tokenizer.train_from_iterator(words, trainer)
    write(tmp_path, "t5")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load(tmp_path)
    expected = tokenizer.encode(query, add_special_tokens=False).ids
    assert loaded.reader.source(query).token_ids == expected
    assert loaded.reader.source(f"{query}\n").token_ids == expected
    assert (query == query.strip()) == (expected == loaded.vocabulary.encode(query.strip()))
    table = tmp_path / "queries.csv"
    table.write_text(f"id,smiles\n1,{query}\n")
    with open_source(str(table)) as source:
        (read_query,) = source.queries()
    assert read_query.smiles == query


def bare_vocabulary(model: Any) -> PieceVocabulary:
    """A vocabulary whose tokenizer has a model, but no other step."""
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens(["<pad>", "<s>", "</s>"])
    count = tokenizer.get_vocab_size()
    tokens = tuple(str(tokenizer.id_to_token(index)) for index in range(count))
    special_ids = [tokenizer.token_to_id(token) for token in ("<pad>", "<s>", "</s>")]
    return PieceVocabulary(tokens, *special_ids, None, tokenizer.to_str())


def test_error_of_tokenizer_is_reported() -> None:
    vocabulary = bare_vocabulary(kinds.WordPiece({"C": 0, "##C": 1}, unk_token="none"))
    assert vocabulary.encode("CC")
    refused(TokenizationError, "^tokenizer fails: ", vocabulary.encode, "CC[Si](C)Br")


def test_error_names_text_that_tokenizer_skips() -> None:
    pieces = kinds.BPE({"C": 0, "O": 1, "(": 2, ")": 3, "CC": 4}, [("C", "C")])
    vocabulary = bare_vocabulary(pieces)
    with pytest.raises(TokenizationError, match=r"vocabulary: '\[', 'S', 'i', '\]'$"):
        vocabulary.encode("CC[Si](C)C")
    assert vocabulary.decode(vocabulary.encode("CC(C)O")) == "CC(C)O"  # without a decoder
    assert vocabulary.decode([vocabulary.bos_id or 0, 4, vocabulary.eos_id]) == "CC"


def test_truncation_and_padding_of_tokenizer_are_ignored(tmp_path: Path) -> None:
    _, tokenizer = write(tmp_path, "t5")
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=90, pad_token="<pad>")
    tokenizer.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    found = load(tmp_path).vocabulary
    assert found.decode(found.encode(SMILES[0])) == SMILES[0]
    assert pickle.loads(pickle.dumps(found)).encode("CC") == found.encode("CC")


def test_converted_folder_has_same_pieces(tmp_path: Path) -> None:
    write(tmp_path / "t5", "t5")
    checkpoints.convert(tmp_path / "t5", tmp_path / "own")
    converted, original = load(tmp_path / "own"), load(tmp_path / "t5")
    assert isinstance(converted.vocabulary, PieceVocabulary)
    assert converted.vocabulary == original.vocabulary
    expected = original.predict(QUERIES, max_length=30, drafter="none")
    assert converted.predict(QUERIES, max_length=30, drafter="tree") == expected
    given, pieces = (["any"], tmp_path / "out", PrepareOptions("product")), converted.vocabulary
    refused("vocabulary is one of learned pieces", prepare, *given, vocabulary=pieces)
    refused("token id 100", converted.vocabulary.decode, [100])


def test_error_names_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "t5")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    refused(CheckpointError, r"library: pip install 'molspec\[hugging-face\]'$", read, tmp_path)


def change_tokenizer(folder: Path, change: Any) -> None:
    file = folder / "tokenizer.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


UNUSABLE = {
    "tokenizer is none of the tokenizers library": lambda v: v["model"].update(type="Other"),
    "tokenizer fails": lambda v: v["post_processor"].update(special_tokens={}),
    "tokenizer has 101 tokens: expected at most 100": lambda v: v["model"]["vocab"].extend(
        [f"C{index}", -9.0] for index in range(101 - len(v["model"]["vocab"]))
    ),
}


@pytest.mark.parametrize("message", UNUSABLE)
def test_error_names_unusable_tokenizer(tmp_path: Path, message: str) -> None:
    write(tmp_path, "t5")
    change_tokenizer(tmp_path, UNUSABLE[message])
    refused(CheckpointError, message, read, tmp_path)
