"""The laws hold for a tiny model, and violations are reported."""

import lzma
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import laws
from molspec import checkpoints
from molspec.drafting import TreeDraft
from tests import tiny


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """A tiny model and its test set, in which one query has an unknown token."""
    checkpoints.write(tiny.checkpoint(), tmp_path / "model")
    rows = "".join(f"{query}\tC\n" for query in (*tiny.QUERIES[:6], "[Pt]"))
    with lzma.open(tmp_path / "test.tsv.xz", "wt") as file:
        file.write("src\ttgt\n" + rows)
    return [f"{tmp_path / 'model'}={tmp_path / 'test.tsv.xz'}", "--chunk", "4"]


def test_laws_hold(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert laws.main(arguments) == 0
    text = capsys.readouterr().out
    assert "model: 4 of 7 from 0, 0 violations" in text
    assert "model int8 tree batch 7: 6 answers" in text
    assert "150 answers checked, 0 violations, 0 ties that rounding decides, 1 queries" in text


def test_samples_are_checked_with_draft_models(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints.write(tiny.checkpoint(2), tmp_path / "small")
    small = str(tmp_path / "small")
    flags = ["--samples", "2", "--small", small, "--smallest", small, "--dtypes", "float32"]
    assert laws.main([*arguments, "--limit", "3", *flags]) == 0
    text = capsys.readouterr().out
    assert "model float32 hierarchy batch 32: 6 answers" in text
    assert "102 answers checked, 0 violations" in text


@pytest.mark.parametrize("flags", [["--prefix", "3"], ["--min-length", "9"], ["--samples", "2"]])
def test_other_searches_and_ensembles_are_checked(
    flags: list[str], arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints.write(tiny.checkpoint(2), tmp_path / "other")
    both = f"{tmp_path / 'model'}+{arguments[0].replace('model', 'other', 1)}"
    for name in (arguments[0], both):
        assert laws.main([name, "--limit", "3", "--dtypes", "float32", *flags]) == 0
        count = 24 * (2 if "--samples" in flags else 1)
        assert f"{count} answers checked, 0 violations" in capsys.readouterr().out


def test_a_drafter_that_changes_an_answer_is_reported(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = laws.Subject.answers

    def wrong_answers(self, dtype, sources, options):  # type: ignore[no-untyped-def]
        found = answers(self, dtype, sources, options)
        if isinstance(options.drafter, TreeDraft) and options.batch_size == 7:
            found[0] = [replace(found[0][0], log_prob=found[0][0].log_prob + 1e-12)]
        return found

    monkeypatch.setattr(laws.Subject, "answers", wrong_answers)
    assert laws.main([*arguments, "--limit", "2", "--dtypes", "float32"]) == 1
    assert ", 1 violations" in capsys.readouterr().out


def test_a_twin_that_disagrees_is_reported(arguments: list[str]) -> None:
    findings = laws.Findings()
    subject = laws.Subject(arguments[0].partition("=")[0], ["float32"])
    sources = subject.queries(tiny.QUERIES[:4], findings)
    laws.check_torch(subject, sources, 1e-4, findings)
    assert not findings.violations
    assert findings.largest_difference < 1e-3  # in sums over up to 200 tokens, down to -95
    with torch.no_grad():
        subject.twin.output.weight.neg_()
    laws.check_torch(subject, sources, 1e-4, findings)
    assert len(findings.violations) == 4
