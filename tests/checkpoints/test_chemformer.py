import json
from pathlib import Path

from molspec.checkpoints import CheckpointError, convert, read
from tests import refused
from tests.checkpoints import stored

VOCABULARY = "bart_vocab.json"


def test_reads_vocabularies_of_text_and_refuses_two_or_incomplete_ones(tmp_path: Path) -> None:
    folder = stored.copy("chemformer", tmp_path).parent
    tokens = read(folder).vocabulary.tokens
    (folder / "bart_vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    message = r"has 2 vocabularies; molspec convert --vocabulary names one: bart_vocab.json, bart"
    refused(CheckpointError, message, read, folder)
    for number, name in enumerate((VOCABULARY, "bart_vocab.txt")):
        converted = convert(folder, folder / str(number), vocabulary=folder / name)
        assert read(folder / str(number)).vocabulary == converted.vocabulary
        assert converted.vocabulary.tokens == tokens
        assert converted.vocabulary.special_ids == (0, 2, 3, 1)
    refused(CheckpointError, "expected a Chemformer", read, folder / "0", folder / VOCABULARY)
    (folder / "empty.json").write_text("{}")
    refused(CheckpointError, "empty.json", read, folder, folder / "empty.json")
    refused(CheckpointError, r"other\.txt: No such file", read, folder, folder / "other.txt")
    (folder / "bart_vocab.txt").unlink()
    (folder / VOCABULARY).write_text(json.dumps({"vocabulary": ["<PAD>", "C"]}))
    refused(CheckpointError, r"bart_vocab.json lacks the special tokens \^, &, ", read, folder)
