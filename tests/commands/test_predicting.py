import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from rdkit import Chem

import molspec
from molspec import checkpoints
from molspec.commands import jobs
from molspec.commands.flags import InputForm, OutputForm
from molspec.common import workers
from molspec.files import FORMATS, INPUT_FORMATS
from tests import tiny
from tests.conftest import Loaded, Run

Captured = pytest.CaptureFixture[str]
PROGRAM = [sys.executable, "-m", "tests.cli_with_fake_model", "predict"]
ROOT = Path(__file__).parents[2]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_format_flags_name_every_format() -> None:
    assert get_args(InputForm) == tuple(INPUT_FORMATS)
    assert get_args(OutputForm) == tuple(FORMATS)


def write_sdf(path: Path) -> None:
    with Chem.SDWriter(str(path)) as writer:
        for smiles, name in (("CO", "m 1"), ("CN", "m2")):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", name)
            writer.write(molecule)


def test_common_file_formats_are_read(run: Run, loaded: Loaded, tmp_path: Path) -> None:
    (tmp_path / "in.smi").write_text("CO\tm 1\nCN m2\n")
    (tmp_path / "in.csv").write_text('id,smiles\n"m 1",CO\nm2,CN\n')
    (tmp_path / "in.tsv").write_text("name\treactants\nm 1\tCO\nm2\tCN\n")
    write_sdf(tmp_path / "in.sdf")
    for name in ("in.smi", "in.csv", "in.tsv", "in.sdf"):
        output = tmp_path / f"{name}.csv"
        assert run("predict", "-i", str(tmp_path / name), "-o", str(output)) == 0
        rows = [(row["id"], row["query"], row["canonical"]) for row in table(output)]
        assert rows == [("m 1", "CO", "CO"), ("m2", "CN", "CN")]
    assert run("predict", "-i", str(tmp_path / "in.smi"), "-o", str(tmp_path / "out.rsmi")) == 0
    assert (tmp_path / "out.rsmi").read_text() == (
        "CO>>CO\tm 1\t1\t0.606531\nCN>>CN\tm2\t1\t0.606531\n"
    )


@pytest.mark.parametrize(
    ("device", "flags", "expected"),
    [
        ("cpu", "-n 1", 32),
        ("cuda", "-n 10", 102),
        ("cuda", "-n 50", 32),
        ("cuda", "--batch-size 32", 32),
    ],
)
def test_a_file_fills_the_batch_of_a_device(
    run: Run, loaded: Loaded, tmp_path: Path, device: str, flags: str, expected: int
) -> None:
    loaded["model"].device = device
    (tmp_path / "in.smi").write_text("CO\n")
    assert run("predict", "-i", str(tmp_path / "in.smi"), *flags.split()) == 0
    assert loaded["model"].options.batch_size == expected
    assert run("predict", "CO", *flags.split()) == 0
    assert loaded["model"].options.batch_size == 32


def test_the_file_ending_selects_the_output_format(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    starts = {"text": "CO", "jsonl": "{", "csv": "id,", "tsv": "id\t", "smi": "CO\t1"}
    for name, start in {**starts, "rsmi": "CO>>CO", "sdf": "1\n", "html": "<!DOCTYPE"}.items():
        path = tmp_path / f"out{FORMATS[name].endings[-1]}"
        assert run("predict", "CO", "-o", str(path)) == 0
        assert path.read_text().startswith(start)
    assert run("predict", "CO", "-o", str(tmp_path / "any.name"), "-f", "csv") == 0
    assert (tmp_path / "any.name").read_text().startswith("id,")


@pytest.mark.parametrize(
    ("flags", "columns"),
    [
        ("", []),
        ("--samples 2", []),
        ("--samples 2 --merge-duplicates", ["count"]),
        ("--verification relaxed", ["tolerated"]),
        ("--target-prefix CO", ["log_prob_after_prefix"]),
        ("--merge-duplicates", []),
    ],
)
def test_options_add_columns_to_a_table(
    run: Run, loaded: Loaded, tmp_path: Path, flags: str, columns: list[str]
) -> None:
    assert run("predict", "CO", "-o", str(tmp_path / "out.csv"), *flags.split()) == 0
    header, _ = (tmp_path / "out.csv").read_text().splitlines()
    assert header.split(",")[-1 - len(columns) :] == ["error", *columns]


def test_several_inputs_are_read_one_after_another(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    (tmp_path / "a.smi").write_text("CO a\n")
    (tmp_path / "b.csv").write_text("id,smiles\nb,CN\n")
    both = ("-i", str(tmp_path / "a.smi"), "-i", str(tmp_path / "b.csv"))
    output = tmp_path / "out.csv"
    assert run("predict", *both[:2], "-o", str(output)) == 0
    assert run("predict", *both, "-o", str(output)) == 0
    assert [(row["id"], row["query"]) for row in table(output)] == [("a", "CO"), ("b", "CN")]
    assert "2 of 2 queries answered, 0 refused, 0 failed, 1 of them now" in run.err
    assert run("predict", *both, "-o", str(tmp_path / "b.csv"), "--overwrite") == 2
    assert "b.csv, which it reads as --input" in run.err
    assert run("predict", "-i", "-", "-i", "-") == 2
    assert "--input is - twice" in run.err


def test_100_000_lines_are_written_in_order_with_their_identifiers(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    count = 100_000
    source, output = tmp_path / "in.smi", tmp_path / "out.smi"
    source.write_text("".join(f"{'X' if n % 9 == 0 else 'CO'} mol-{n}\n" for n in range(count)))
    assert run("predict", "-i", str(source), "-o", str(output), "--as-written") == 1
    lines = output.read_text().splitlines()
    assert len(lines) == count
    for number, line in enumerate(lines):
        expected = ("", "", "error: it has an X") if number % 9 == 0 else ("OC", "1", "0.606531")
        smiles, identifier, *rest = line.split("\t")
        assert (smiles, *rest) == expected
        assert identifier == f"mol-{number}"


def test_a_repeated_command_predicts_nothing(run: Run, loaded: Loaded, tmp_path: Path) -> None:
    output = str(tmp_path / "out.csv")
    assert run("predict", "C.O", "X", "-o", output) == 1
    before = (tmp_path / "out.csv").read_bytes()
    loaded["model"].predict_stream = lambda *_, **__: iter(())
    where = f'; each has its "error" in {output}\n'
    assert run.err.endswith(where)
    assert run("predict", "C.O", "X", "-o", output) == 1
    told = "1 of 2 queries answered, 1 refused, 0 failed, nothing was left to do"
    assert run.err == f"molspec: {told}{where}"
    assert (tmp_path / "out.csv").read_bytes() == before


def test_a_job_names_its_dtype_and_resumes_in_it_alone(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    command = ("predict", "CO", "-o", str(tmp_path / "page.html"))
    assert run(*command) == 0
    loaded["model"].runs_in = "int8"
    assert run(*command) == 2
    assert "dtype is 'int8', but" in run.err
    assert run(*command, "--dtype", "float32") == 0
    assert "nothing was left to do" in run.err
    for flags, dtype in (((), "int8"), (("--dtype", "bfloat16"), "bfloat16")):
        assert run(*command, "--overwrite", *flags) == 0
        assert f"Answered by product, {dtype}," in (tmp_path / "page.html").read_text()


def test_resuming_with_other_settings_or_queries_is_refused(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    output = tmp_path / "out.csv"
    command = ("predict", "CO", "-o", str(output))
    assert run(*command) == 0
    before = output.read_bytes()
    for flags, message in {
        "-n 2": "n_best is 2",
        "-m retro": "weights is '",
        "--as-written": "as_written is True",
        "--dtype bfloat16": "dtype is 'bfloat16'",
        "-f tsv": "format is 'tsv'",
    }.items():
        assert run(*command, *flags.split()) == 2
        assert message in run.err
        assert "--overwrite" in run.err
        assert output.read_bytes() == before
    for flags in ("--batch-size 7", "--drafter none", "--drafter windows"):
        assert run(*command, *flags.split()) == 0  # the answers are the same
        assert "nothing was left to do" in run.err
    relaxed = ("predict", "CO", "--verification", "relaxed", "-o", str(tmp_path / "r.csv"))
    for size, status in (("8", 0), ("7", 2)):
        assert run(*relaxed, "--batch-size", size) == status
    assert "batch_size is 7" in run.err
    assert run("predict", "CN", "-o", str(output)) == 2
    assert "other queries" in run.err
    assert run("predict", "CN", "-n", "2", "-o", str(output), "--overwrite") == 0
    assert table(output)[0]["query"] == "CN"


def test_an_existing_file_stays_if_nothing_is_written(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    queries, output = tmp_path / "queries.smi", tmp_path / "out.tsv"
    queries.touch()
    output.write_text("of yesterday\n")
    command = ("predict", "--input", str(queries), "--output", str(output))
    assert run(*command) == run(*command, "--overwrite") == 2
    queries.write_text("CO\n")
    assert run(*command) == 2
    assert output.read_text() == "of yesterday\n"
    assert run(*command, "--overwrite") == 0
    assert output.read_text().startswith("id\t")


def test_a_job_resumes_after_an_invalid_csv_row_ended_it(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text('smiles\nCO\n"CN\n')
    assert run("predict", "-i", str(source), "-o", str(output)) == 2
    assert run.err.startswith(f"molspec: {source}, line 3: ")
    source.write_text("smiles\nCO\nCN\n")
    assert run("predict", "-i", str(source), "-o", str(output)) == 0
    assert [row["query"] for row in table(output)] == ["CO", "CN"]


def test_retro_decodes_the_main_component_of_a_salt_with_a_note(run: Run) -> None:
    hydrochloride, amide = "CCN(CC)CC(=O)Nc1ccccc1.Cl", "CCN(CC)CC(=O)Nc1ccccc1"
    command = ("predict", hydrochloride, amide, "CCO.[Na+]", "-m", "retro", "-f", "jsonl")
    assert run(*command) == 0
    salt, plain, sodium = map(json.loads, run.out.splitlines())
    assert salt["query"] == hydrochloride
    assert salt["note"] == f"decoded as {amide}, without Cl"
    assert salt["predictions"] == plain["predictions"]
    assert plain["note"] is None
    assert sodium["note"] == "decoded as CCO, without [Na+]"
    assert run(*command, "--keep-salts") == 1
    whole_salt, _, sodium = map(json.loads, run.out.splitlines())
    assert whole_salt["note"] is None
    assert "Cl" in whole_salt["predictions"][0]["canonical"]
    assert sodium["error"] == "not in the model's vocabulary: '[Na+]'"


def test_deuterium_is_read_as_hydrogen_on_request(run: Run) -> None:
    """And said. A vocabulary without it refuses it otherwise; salts are read as before."""
    amide, salt = "[2H]C([2H])([2H])C(=O)Nc1ccccc1", "[2H]N(C)CCc1ccccc1.Cl"
    command = ("predict", amide, salt, "[13CH3]O", "CC(=O)Nc1ccccc1", "-m", "retro", "-f", "jsonl")
    assert run(*command) == 1
    assert ["[2H]" in line for line in run.out.splitlines()] == [True, True, False, False]
    assert "3 refused" in run.err
    assert run(*command, "--deuterium-as-hydrogen") == 1
    read, salty, labelled, plain = map(json.loads, run.out.splitlines())
    assert read["query"] == amide
    assert read["note"] == "decoded as CC(=O)Nc1ccccc1, with hydrogen for deuterium"
    assert read["predictions"] == plain["predictions"]
    told = "decoded as CNCCc1ccccc1, with hydrogen for deuterium, without Cl"
    assert (salty["note"], plain["note"]) == (told, None)
    assert labelled["error"] == "not in the model's vocabulary: '[13CH3]'"


def test_deuterium_of_a_table_is_read_as_hydrogen_on_request(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("product,reactants\n[2H]CCO,CCO\n")
    read = ("-m", "retro", "--deuterium-as-hydrogen", "--format")
    for command, form in (("score", "jsonl"), ("evaluate", "json")):
        assert run(command, str(tmp_path / "a.csv"), "-m", "retro") == 1
        assert run(command, str(tmp_path / "a.csv"), *read, form) == 0
        assert "deuterium" in run.out


def test_retro_refuses_reactants_before_it_decodes(run: Run, tmp_path: Path) -> None:
    command = ("predict", "CC(=O)Cl.Nc1ccccc1", "-m", "retro", "-f", "jsonl")
    assert run(*command) == 1
    answer = json.loads(run.out)
    assert answer["predictions"] == []
    assert answer["error"].startswith("CC(=O)Cl, Nc1ccccc1: 2 molecules that are not a salt")
    assert "1 refused" in run.err
    assert run(*command, "--keep-salts") == 0
    output = str(tmp_path / "out.csv")  # a job resumes behind it
    assert run(*command[:4], "-o", output) == 1
    assert run(*command[:2], "CCO", *command[2:4], "-o", output) == 1
    assert "1 of 2 queries answered, 1 refused, 0 failed, 1 of them now" in run.err


def test_answers_are_distinct_molecules_unless_raw(run: Run) -> None:
    command = ("predict", "CCN(CC)CCOC(=O)c1ccc(N)cc1", "-m", "retro", "-n", "5", "-f", "jsonl")
    lists = []
    for flags in ((), ("--raw",)):
        assert run(*command, *flags) == 0
        answers = json.loads(run.out)["predictions"]
        lists.append([answer["canonical"] for answer in answers])
    assert [len(answers) for answers in lists] == [5, 5]
    assert [len(set(answers)) for answers in lists] == [5, 3]


def test_a_long_job_gives_one_hint_at_processes(
    run: Run, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.csv").write_text("src,tgt\nCO.CN,C\nCO,C\n")
    predict = ("predict", "CO.CN", "CO")
    evaluate = ("evaluate", str(tmp_path / "table.csv"))
    for command, seconds, cores, device, hints in (
        (predict, 0.0, 8, "cpu", 1),
        (evaluate, 0.0, 8, "cpu", 1),
        ((*predict, "--processes", "2"), 0.0, 8, "cpu", 0),
        (predict, 1e9, 8, "cpu", 0),
        (predict, 0.0, 1, "cpu", 0),
        (predict, 0.0, 8, "cuda", 0),
    ):
        monkeypatch.setattr(jobs, "_LONG", seconds)
        monkeypatch.setattr(workers, "usable_cores", lambda cores=cores: cores)
        loaded["model"].device = device
        assert run(*command) == 0
        assert run.err.count("hint: --processes all uses all 8 cores") == hints


def test_several_models_answer_as_one(run: Run, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        checkpoints.write(tiny.checkpoint(number), tmp_path / str(number))
    first, second, third = (str(tmp_path / str(number)) for number in (1, 2, 3))
    output = tmp_path / "out.jsonl"
    flags = ("CCO", "C", "--raw", "--max-length", "9", "-f", "jsonl", "-o")
    assert run("predict", *flags, str(output), "-m", first, "-m", second) == 0
    (expected,) = molspec.load([first, second]).predict(["CCO"], max_length=9)
    found = json.loads(output.read_text().splitlines()[0])["predictions"][0]
    assert found["log_prob"] == expected.predictions[0].log_prob
    assert run("predict", *flags, str(output), "-m", f"{first}+{second}") == 0  # the same job
    assert "nothing was left to do" in run.err
    assert run("predict", *flags, str(output), "-m", f"{first}+{third}") == 2
    inside = f"{tmp_path}/2/config.json"
    assert run("predict", *flags, inside, "-m", first, "-m", second, "--overwrite") == 2
    assert f"which it reads as --model {second}" in run.err


def test_a_model_without_a_task_writes_no_reactions(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    loaded["model"].task = None
    (tmp_path / "a.tsv").write_text("src\ttgt\nCO\tOC\n")
    for job in (("predict", "CO"), ("score", str(tmp_path / "a.tsv"))):
        assert run(*job, "-f", "rsmi") == 2
        assert "the model does not say which side it answers" in run.err


def test_several_processes_write_the_same_file_as_one(run: Run, tmp_path: Path) -> None:
    queries = tmp_path / "queries.smi"
    queries.write_text("".join(f"{'C' * (1 + number % 7)}O m{number}\n" for number in range(60)))
    contents = []
    for processes in ("1", "2", "all"):
        path = tmp_path / f"{processes}.csv"
        run("predict", "-i", str(queries), "-o", str(path), "--processes", processes, "-n", "2")
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output_has_other_names(tmp_path: Path, name: str) -> None:
    """They lead to a file if the shell sends standard output into one."""
    with (tmp_path / "out.smi").open("wb") as stream:
        subprocess.run([*PROGRAM, "C.O", "-f", "smi", "-o", name], stdout=stream, cwd=ROOT)
    assert (tmp_path / "out.smi").read_text() == "C.O\t1\t1\t0.606531\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.smi"]


def test_more_processes_than_cores_give_a_warning(
    run: Run, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molspec.common.workers.usable_cores", lambda: 2)
    assert run("predict", "CO", "--processes", "3") == 0
    assert "--processes 3 is more than the number of usable cores, 2" in run.err
    for wrong in ("0", "two"):
        assert run("predict", "CO", "--processes", wrong) == 2
        assert "processes is " in run.err


def test_a_summary_counts_answered_and_refused_queries(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    source = tmp_path / "in.smi"
    source.write_text("C.O\nC.X\nO.X\n")
    assert run("predict", "-i", str(source), "-f", "jsonl") == 1
    (summary,) = run.err.splitlines()
    assert summary.startswith("molspec: 1 of 3 queries answered, 2 refused, 0 failed, in ")
    assert summary.endswith('s; each has its "error" in the output')
    assert run("predict", "C.O", "O.C") == 0  # the answers need no summary
    assert run.err == ""


def test_predicting_the_product_of_a_single_molecule_gives_a_hint(run: Run, loaded: Loaded) -> None:
    for queries, is_hinted in ((["CO"], True), (["CO", "C.O"], False), (["C>O>"], False)):
        assert run("predict", *queries) == 0
        assert ("hint: every query is a single molecule" in run.err) == is_hinted
    assert run("predict", "X") == 1  # not a molecule: the error suffices
    assert "hint" not in run.err
    loaded["model"].task = "retro"
    assert run("predict", "CO") == 0
    assert run.err == ""


def test_standard_input_and_output_may_not_be_one_file(tmp_path: Path) -> None:
    """For example `predict -i q.smi >> q.smi`, which would read its own answers."""
    source = tmp_path / "q.smi"
    source.write_text("C.O\n")
    for arguments in ("-i q.smi >> q.smi", "-i - < q.smi >> q.smi", "-i - -o q.smi < q.smi"):
        done = subprocess.run(
            ["sh", "-c", f"cd {tmp_path} && exec {' '.join(PROGRAM)} {arguments}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert b"which it reads as --input" in done.stderr
        assert source.read_text() == "C.O\n"


def test_requested_columns_of_the_input_are_copied(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("Compound Name;SMILES;Price\n=danger;C.O;1,5\n")
    command = ("predict", "-i", str(source), "-o", str(output), "--copy-column", "Price")
    assert run(*command) == 0
    (row,) = table(output)
    assert (row["id"], row["query"], row["Price"]) == ("=danger", "C.O", "1,5")
    for flags, message in (
        (("--copy-column", "cost"), "copy_column is 'cost': expected a column of"),
        (("--copy-column", "Price"), "copy_column is 'Price': expected a name that no other"),
        (("-f", "smi"), "copy_column is 'Price': expected none, smi has no columns"),
        (("-f", "rsmi", "--token-log-probs"), "token_log_probs is True with the format rsmi: "),
    ):
        assert run(*command, "--overwrite", *flags) == 2
        assert message in run.err
