"""Prepares files of reactions as a folder of pairs."""

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec.common.task import Task
from molspec.common.workers import DIED
from molspec.text import Vocabulary, canonicalise
from molspec.training import Judge, PrepareOptions, preparation, prepare
from molspec.training.pairs import Made
from molspec.training.prepared import Prepared, read
from molspec.training.reactions import Row, read_rows
from tests import refused
from tests.training.tiny import sample_reactions

RETRO = PrepareOptions("retro", variants=3, validation_share=0.2)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 60 good reactions and bad rows of every kind."""
    good = sample_reactions(60)
    bad = ["=CCO", ">>CC", "CCO>>CCO", "C1CC>>CC", "CC.OC>>CO.CCC.CCCC", f"C>>{'C' * 500}", good[0]]
    path = tmp_path_factory.mktemp("reactions") / "mixed.tsv"
    path.write_text("reaction\n" + "".join(f"{text}\n" for text in (*good, *bad)))
    return path


@pytest.fixture(scope="module")
def prepared(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared") / "retro"
    prepare([file], folder, RETRO)
    assert not list(folder.parent.glob(".*"))
    (folder.parent / "plain").touch()  # files have usual permissions
    modes = {path.stat().st_mode for path in (folder.parent / "plain", *folder.iterdir())}
    assert len(modes) == 1
    return read(folder)


def texts(made: Prepared) -> list[tuple[str, str]]:
    """The training pairs."""
    decode = made.vocabulary.decode
    return [(decode(source), decode(target)) for source, target in made.train.pairs()]


def made_of(folder: Path, rows: Sequence[str], task: Task, **files: Any) -> Prepared:
    """The data of reactions, with one reaction for validation."""
    reactions, validation = folder / "some.smi", folder / "validation.smi"
    reactions.write_text("\n".join(rows))
    validation.write_text("CO>>COC")
    output = folder / f"out-{len(list(folder.iterdir()))}"
    return prepare([reactions], output, PrepareOptions(task), validation=[validation], **files)


def test_bad_rows_are_counted_and_listed(file: Path, tmp_path: Path) -> None:
    counts = prepare([file], tmp_path / "out", RETRO).description
    assert counts["rejected"] == {
        "not a reaction SMILES": 1,
        "no reactants": 1,
        "no new product": 1,
        "not a molecule to RDKit": 1,
        "several products": 1,
        "more than 400 tokens": 1,
        "repeat": 1,
    }
    assert counts["train"]["reactions"] + counts["validation"]["reactions"] == 60
    lines = (tmp_path / "out" / "rejected.tsv").read_text().splitlines()
    assert lines[0] == "file\trow\tsplit\treason\treaction"
    assert "mixed.tsv\t62\t\tnot a reaction SMILES\t=CCO" in lines
    assert len(lines) == 8


def test_reactions_that_cannot_be_aligned_are_counted(tmp_path: Path) -> None:
    mapped = "[CH3:1][OH:2]>>[CH3:1][O-:2] [CH3:12]Cl.O>>[CH3:12]O CC[Cl:3]>O>C[CH2:9]O[Cl:3]"
    unmapped = "CCCl>>CCO [CH3:1][CH2:2]Br>>CCBr.CCI CCC[F:1]>>CCC[O:11]C C[NH2:0]>>CC[NH2:0]"
    rows = ["CCCC>>CCCCO", *mapped.split(), *unmapped.split()]
    made = made_of(tmp_path, rows, "product").description
    assert (made["rejected"], made["aligned"]) == ({}, True)
    assert made["unmapped"] == 1 + len(unmapped.split())
    assert not made_of(tmp_path, rows[:1], "product").description["aligned"]


@pytest.mark.parametrize("task", ["retro", "product"])
def test_a_product_that_is_a_salt_is_its_molecule(tmp_path: Path, task: Task) -> None:
    """As `predict` decodes it, so that a test set's free base leaves out its salt."""
    rows = ["[CH3:1][NH:2]C=O.O>>[CH3:1][NH3+:2].[Cl-]", "[CH3:1]Cl.O>>[CH3:1][O-].[Na+]"]
    pairs = texts(made_of(tmp_path, rows, task))
    assert {canonicalise(pair[task == "product"]) for pair in pairs} == {"CN", "CO"}
    base = tmp_path / "base.smi"
    base.write_text("C=O.N>>CN\n")
    left = made_of(tmp_path, rows, task, exclude=[base]).description
    assert left["rejected"] == {"product of an excluded file": 1}


def test_reagents_in_targets_without_maps_are_counted(tmp_path: Path) -> None:
    rows = ("CC(=O)O.CO>>COC(C)=O", "CC(=O)O.CO.CCN(CC)CC>>COC(C)=O", "CC(=O)O.CCO>CN>CCOC(C)=O")
    mapped = "C[C:1](=[O:3])O.[CH3:2][OH:4].CCN(CC)CC>>[CH3:2][O:4][C:1](C)=[O:3]"
    for task, count in (("retro", 1), ("product", 0)):
        made = made_of(tmp_path, [*rows, mapped], task).description  # type: ignore[arg-type]
        assert made["with_reagents"] == count


def test_folder_holds_the_pairs(prepared: Prepared) -> None:
    """No product is in both splits."""
    pairs, counts = texts(prepared), prepared.description["train"]
    assert len(pairs) == counts["pairs"]
    assert 2 * counts["reactions"] < counts["pairs"] <= 3 * counts["reactions"]
    assert counts["tokens"] == prepared.train.source_ids.numel() + prepared.train.target_ids.numel()
    assert prepared.vocabulary.tokens[:3] == ("<PAD>", "<BOS>", "<EOS>")
    canonical = {(canonicalise(source), canonicalise(target)) for source, target in pairs}
    assert len(canonical) == counts["reactions"]
    validated = texts(replace(prepared, train=prepared.validation))
    products = [{canonicalise(source) for source, _ in each} for each in (pairs, validated)]
    assert products[0].isdisjoint(products[1])
    validation = prepared.description["validation"]
    assert validation["pairs"] == validation["reactions"] == len(products[1]) > 3


def test_workers_do_not_change_the_result(file: Path, prepared: Prepared, tmp_path: Path) -> None:
    again = prepare([file], tmp_path / "out", replace(RETRO, workers=2))
    assert again.vocabulary == prepared.vocabulary
    assert again.description == prepared.description
    assert again.fingerprint == prepared.fingerprint
    for split in ("train", "validation"):
        for name, expected in vars(getattr(prepared, split)).items():
            assert torch.equal(getattr(getattr(again, split), name), expected)


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Lets a row kill the process that makes its pairs."""
    make = preparation.make_pairs

    def kill_at(file: str, number: int) -> None:
        def killed(row: Row, **options: Any) -> Made:
            if (row.file, row.number) == (file, number):
                os.kill(os.getpid(), signal.SIGKILL)
            return make(row, **options)

        monkeypatch.setattr(preparation, "make_pairs", killed)

    return kill_at


def test_a_row_that_kills_its_workers_is_rejected(
    file: Path, tmp_path: Path, killing: Callable[[str, int], None]
) -> None:
    killing(file.name, 7)
    counts = prepare([file], tmp_path / "out", replace(RETRO, workers=2)).description
    assert counts["rejected"][DIED] == 1
    assert counts["train"]["reactions"] + counts["validation"]["reactions"] == 59


def test_excluded_row_that_kills_workers_is_an_error(
    file: Path, tmp_path: Path, killing: Callable[[str, int], None]
) -> None:
    """If workers die of an excluded row, its product is unknown and might be trained on."""
    excluded = tmp_path / "test.smi"
    excluded.write_text("\n".join([row.reaction for row in read_rows(file, None, "retro")][:3]))
    job = ([file], tmp_path / "out", replace(RETRO, workers=2))
    killing("test.smi", 2)
    refused(RuntimeError, "^exclude has row 2 of test.smi", prepare, *job, exclude=[excluded])
    killing("", 0)
    assert prepare(*job, exclude=[excluded]).description["excluded_products"] == 3


def test_products_of_validation_and_excluded_files_are_rejected(file: Path, tmp_path: Path) -> None:
    rows = [row.reaction for row in read_rows(file)]
    unreadable = rows[20].replace(">", ".C(>", 1)
    (tmp_path / "validation.smi").write_text("\n".join([*rows[5:11], unreadable]))
    (tmp_path / "test.smi").write_text("\n".join(rows[8:15]))
    validation, exclude = ([tmp_path / f"{name}.smi"] for name in ("validation", "test"))
    result = prepare([file], tmp_path / "out", RETRO, validation=validation, exclude=exclude)
    told = result.description
    assert (told["files"], told["validation_files"]) == ([file.name], ["validation.smi"])
    assert (told["excluded_files"], told["excluded_products"]) == (["test.smi"], 7)
    assert (told["validation"]["reactions"], told["train"]["reactions"]) == (3, 60 - 10 - 1)
    assert told["rejected"]["product of an excluded file"] == 3 + 7
    assert told["rejected"]["product of a validation reaction"] == 3 + 1


@pytest.mark.parametrize("header", ["src\ttgt", "tgt\tsrc"])
def test_excluded_test_set_may_have_products_in_either_column(
    file: Path, tmp_path: Path, header: str
) -> None:
    rows = [row.reaction.split(">") for row in read_rows(file)][5:12]
    path = tmp_path / "test.tsv"
    ends = [(canonicalise(products), canonicalise(before)) for before, _, products in rows]
    path.write_text(f"{header}\n" + "".join(f"{a}\t{b}\n" for a, b in ends))
    made = prepare([file], tmp_path / "out", RETRO, exclude=[path])
    assert made.description["rejected"]["product of an excluded file"] == 7


def test_a_named_column_is_that_of_the_training_files(file: Path, tmp_path: Path) -> None:
    """Their name is not text: it is printed with its bytes escaped."""
    reactions = [row.reaction for row in read_rows(file)]
    named = tmp_path / os.fsdecode(b"tr\xe9.tsv")
    named.write_text("raw\tclean\n" + "".join(f"C\t{each}\n" for each in [*reactions[9:], ">>C"]))
    for kind in ("exclude", "validation"):
        options = replace(RETRO, reaction_column="clean")
        (tmp_path / "test.smi").write_text("\n".join(reactions[:9]))
        made = prepare([named], tmp_path / kind, options, **{kind: [tmp_path / "test.smi"]})
        assert made.description["files"] == [r"tr\xe9.tsv".replace("xe9", "udce9")]
        assert r"tr\udce9.tsv" in (tmp_path / kind / "rejected.tsv").read_text()


def test_unfit_excluded_reactions_still_exclude_their_products(file: Path, tmp_path: Path) -> None:
    before, _, product = next(read_rows(file)).reaction.split(">")
    rejected = []
    for number, agents in enumerate(("", "C(")):
        (tmp_path / "test.smi").write_text(f"{before}>{agents}>{product}")
        made = prepare([file], tmp_path / f"{number}", RETRO, exclude=[tmp_path / "test.smi"])
        rejected.append(made.description["rejected"]["product of an excluded file"])
    assert rejected[0] == rejected[1]


def test_reactions_with_rare_or_unknown_tokens_are_rejected(file: Path, tmp_path: Path) -> None:
    full = prepare([file], tmp_path / "all", RETRO)
    rare = prepare([file], tmp_path / "rare", replace(RETRO, min_token_count=12))
    assert set(rare.vocabulary.tokens) < set(full.vocabulary.tokens)
    rejected_count = rare.description["rejected"]["token not in the vocabulary"]
    assert rare.description["train"]["reactions"] < full.description["train"]["reactions"]
    with_vocabulary = prepare([file], tmp_path / "given", RETRO, vocabulary=rare.vocabulary)
    assert with_vocabulary.vocabulary == rare.vocabulary
    assert with_vocabulary.description["rejected"]["token not in the vocabulary"] == rejected_count
    rejected = (tmp_path / "given" / "rejected.tsv").read_text()
    assert rejected.count("\ttoken not in the vocabulary: '") == rejected_count


def test_forward_task_has_reagents_in_the_source(tmp_path: Path) -> None:
    mapped = "[CH3:1][OH:2].CC(=O)Cl>CCN(CC)CC>[CH3:1][O:2]C(C)=O"
    assert texts(made_of(tmp_path, [mapped, "CCO>>CC=O", "CCCO>>CCC=O"], "product")) == [
        ("CC(=O)Cl.CCN(CC)CC.CO", "COC(C)=O"),
        ("CCO", "CC=O"),
        ("CCCO", "CCC=O"),
    ]


def test_judge_rejects_improbable_reactions(file: Path, prepared: Prepared, tmp_path: Path) -> None:
    judged: list[tuple[str, str, bool]] = []

    def judge(pairs: Iterable[tuple[str, str, bool]]) -> Iterator[float | None]:
        for pair in pairs:
            judged.append(pair)
            yield {0: -2.01, 1: None}.get(len(judged) % 4, -2.0)

    options, vocabulary = replace(RETRO, max_nats=2.0), prepared.vocabulary
    wise = Judge("wise", judge)
    made = prepare([file], tmp_path / "out", options, vocabulary=vocabulary, judge=wise)
    before, after = (each.description for each in (prepared, made))
    assert len(judged) == before["train"]["reactions"] > 40
    assert judged[0] == (*texts(prepared)[0], True)
    unreadable, improbable = (len(judged) + 3) // 4, len(judged) // 4
    assert after["rejected"]["unreadable to the judge"] == unreadable
    assert after["rejected"]["more than 2 nats to the judge"] == improbable
    assert after["train"]["reactions"] == len(judged) - unreadable - improbable
    assert after["validation"] == before["validation"]
    assert after["judge"]["name"] == "wise"
    assert after["judge"]["reactions"] == len(judged)
    assert after["judge"]["kept"] == after["train"]["reactions"]
    assert after["judge"]["nats"] == {"10 %": 2.0, "25 %": 2.0, "50 %": 2.01}
    refused("max_nats is None with a judge", prepare, [file], tmp_path / "other", RETRO, judge=wise)
    refused(r"max_nats is 2\.0 without a judge", prepare, [file], tmp_path / "other", options)


def test_wrong_arguments_are_refused(file: Path, tmp_path: Path) -> None:
    output, bad, device = tmp_path / "out", tmp_path / "bad.smi", Path(os.devnull)
    refused("it exists already", prepare, [file], file.parent, RETRO)
    refused("files is empty", prepare, [], output, RETRO)
    refused("files is '.*': expected a list", prepare, str(file), output, RETRO)
    bad.write_text("CC>>CC\nCO>>CO\n")
    refused("no train pair is left: rejected 2 x no new product", prepare, [bad], output, RETRO)
    bad.write_text("CCO>>CC=O\n")
    refused(r"of 1 reactions none .* validation_share 0\.2", prepare, [bad], output, RETRO)
    missing = [tmp_path / "missing.tsv"]  # found before any file is processed
    refused(FileNotFoundError, "missing", prepare, [file], output, RETRO, exclude=missing)
    refused("null is a pipe", prepare, [device], output, RETRO)
    for option, group in (("validation", [file, device]), ("exclude", [device])):
        refused("null is a pipe", prepare, [file], output, RETRO, **{option: group})
    assert not output.exists()
    refused(r"validation_share is 1\.0", replace, RETRO, validation_share=1.0)


def test_a_vocabulary_whose_ids_are_not_stored_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Vocabulary(("<PAD>", "<BOS>", "<EOS>", *(f"[{n}C]" for n in range(1 << 15))))
    message = "vocabulary has 32771 tokens: expected at most 32768"
    refused(message, prepare, [file], tmp_path / "out", RETRO, vocabulary=large)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("molspec.training.prepared.MOST_TOKENS", 9)
    refused("expected at most 9", prepare, [file], tmp_path / "out", RETRO)


def test_damaged_folders_are_refused(file: Path, tmp_path: Path) -> None:
    refused(r"prepared\.json is missing", read, tmp_path)
    folder = tmp_path / "out"
    prepare([file], folder, RETRO)
    path = folder / "prepared.json"
    written, described = path.read_text(), json.loads(path.read_text())
    without_task = {name: value for name, value in described.items() if name != "task"}
    for text, message in (
        (json.dumps({**described, "format_version": 9}), "version 9"),
        ("{", r"prepared\.json is not JSON"),
        (json.dumps(without_task), r"prepared\.json does not say task"),
        (json.dumps({**described, "train": 3}), "does not count the pairs of train"),
    ):
        path.write_text(text)
        refused(message, read, folder)
    path.write_text(written)
    (folder / "train.safetensors").write_bytes(b"junk")
    refused(r"train\.safetensors is damaged", read, folder)
    (folder / "vocabulary.json").write_text('{"tokens": 3}')
    refused(r"vocabulary\.json: ", read, folder)
