import csv
import json
from pathlib import Path
from typing import Any, get_args

import pytest

import molspec
from molspec import checkpoints
from molspec.commands import jobs
from molspec.commands.flags import InputForm, OutputForm
from molspec.common import workers
from molspec.files import FORMATS, INPUT_FORMATS
from tests import tiny
from tests.commands.conftest import in_shell, write
from tests.conftest import Loaded, Run

ANSWERED = "queries answered, {} refused, 0 failed, "


def table(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def predicted(run: Run, line: str, status: int = 0) -> list[dict[str, Any]]:
    """The answers of a command in JSON lines."""
    assert run(f"predict -f jsonl {line}") == status
    return [json.loads(each) for each in run.out.splitlines()]


def test_the_format_flags_name_every_format() -> None:
    assert get_args(InputForm) == tuple(INPUT_FORMATS)
    assert get_args(OutputForm) == tuple(FORMATS)


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
    run: Run, loaded: Loaded, device: str, flags: str, expected: int
) -> None:
    loaded["model"].device = device
    write("in.smi", "CO\n")
    for queries, size in (("-i in.smi", expected), ("CO", 32)):
        assert run(f"predict {queries} {flags}") == 0
        assert loaded["model"].options.batch_size == size


def test_the_file_ending_selects_the_output_format(run: Run, loaded: Loaded) -> None:
    starts = {"text": "CO", "jsonl": "{", "csv": "id,", "tsv": "id\t", "smi": "CO\t1"}
    for name, start in {**starts, "rsmi": "CO>>CO", "sdf": "1\n", "html": "<!DOCTYPE"}.items():
        path = Path(f"out{FORMATS[name].endings[-1]}")
        assert run(f"predict CO -o {path}") == 0
        assert path.read_text().startswith(start)
    assert run("predict CO -o any.name -f csv") == 0
    assert Path("any.name").read_text().startswith("id,")


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
    run: Run, loaded: Loaded, flags: str, columns: list[str]
) -> None:
    assert run(f"predict CO -o out.csv {flags}") == 0
    header, _ = Path("out.csv").read_text().splitlines()
    assert header.split(",")[-1 - len(columns) :] == ["error", *columns]


def test_several_inputs_are_read_one_after_another(run: Run, loaded: Loaded) -> None:
    write("a.smi", "CO a\n")
    write("b.csv", "id,smiles\nb,CN\n")
    for inputs in ("-i a.smi", "-i a.smi -i b.csv"):
        assert run(f"predict {inputs} -o out.csv") == 0
    assert [(row["id"], row["query"]) for row in table("out.csv")] == [("a", "CO"), ("b", "CN")]
    assert f"2 of 2 {ANSWERED.format(0)}done before: 1, now: 1, in " in run.err
    for wrong, told in (
        ("-i a.smi -i b.csv -o b.csv --overwrite", "b.csv, which it reads as --input"),
        ("-i - -i -", "--input is - twice"),
    ):
        assert run(f"predict {wrong}") == 2
        assert told in run.err


def test_a_job_resumes_with_the_settings_and_queries_of_its_answers(
    run: Run, loaded: Loaded
) -> None:
    """Among them the dtype that it began in, if the model names another one by now."""
    command, page = "predict CO -o page.html", Path("page.html")
    assert run(command) == 0
    before = page.read_bytes()
    loaded["model"].runs_in = "int8"
    for flags, message in {
        "": "dtype is 'int8', but",
        "-n 2 --dtype float32": "-n is 2",
        "-m retro": "weights is '",
        "--as-written --dtype float32": "--as-written is True",
        "--dtype bfloat16": "--dtype is 'bfloat16'",
        "-f tsv --dtype float32": "-f is 'tsv'",
    }.items():
        assert run(f"{command} {flags}") == 2
        assert message in run.err
        assert "--overwrite" in run.err
        assert page.read_bytes() == before
    for flags in ("--batch-size 7", "--drafter none", "--drafter windows"):
        assert run(f"{command} --dtype float32 {flags}") == 0  # the answers are the same
        assert "nothing was left to do" in run.err
    for size, status in ((8, 0), (7, 2)):
        assert run(f"predict CO --verification relaxed -o r.csv --batch-size {size}") == status
    assert "--batch-size is 7" in run.err
    assert run("predict CN --dtype float32 -o page.html") == 2
    assert "other queries" in run.err
    assert run("predict CN -n 2 -o page.html --overwrite") == 0
    assert "Answered by product, int8," in page.read_text()


def test_retro_decodes_a_part_of_a_query_and_says_so(run: Run) -> None:
    """The molecule of a salt; on request hydrogen for deuterium. Other mixtures are refused."""
    amide, labelled = "CCN(CC)CC(=O)Nc1ccccc1", "[2H]CCN(CC)CC(=O)Nc1ccccc1.Cl"
    queries = f"-m retro {amide} {amide}.Cl {labelled} [13CH3]O CC(=O)Cl.Nc1ccccc1"
    plain, salt, *refused = predicted(run, queries, 1)
    assert [each["query"] for each in (plain, salt, *refused)] == queries.split()[2:]
    assert (plain["note"], salt["note"]) == (None, f"decoded as {amide}, without Cl")
    assert salt["predictions"] == plain["predictions"]
    for answer, told in zip(refused, ("[2H]", "[13CH3]", "not a salt"), strict=True):
        assert told in answer["error"]
        assert answer["predictions"] == []
    assert "3 refused" in run.err
    _, _, read, isotope, _ = predicted(run, f"{queries} --deuterium-as-hydrogen", 1)
    assert read["note"] == f"decoded as {amide}, with hydrogen for deuterium, without Cl"
    assert read["predictions"] == plain["predictions"]
    assert "[13CH3]" in isotope["error"]
    _, salt, _, _, mixture = predicted(run, f"{queries} --keep-salts", 1)
    assert (salt["note"], mixture["error"]) == (None, None)
    assert "Cl" in salt["predictions"][0]["canonical"]


def test_deuterium_of_pairs_is_read_as_hydrogen_on_request(run: Run) -> None:
    write("a.csv", "product,reactants\n[2H]CCO,CCO\n")
    for command, form in (("score", "jsonl"), ("evaluate", "json")):
        assert run(f"{command} a.csv -m retro") == 1
        assert run(f"{command} a.csv -m retro --deuterium-as-hydrogen --format {form}") == 0
        assert "deuterium" in run.out
    assert run.err.startswith("molspec: 1 of 1 queries have deuterium, read as hydrogen: ")


def test_answers_are_distinct_molecules_unless_raw(run: Run) -> None:
    for flags, distinct in (("", 5), ("--raw", 3)):
        (answer,) = predicted(run, f"'CCN(CC)CCOC(=O)c1ccc(N)cc1' -m retro -n 5 {flags}")
        found = [each["canonical"] for each in answer["predictions"]]
        assert (len(found), len(set(found))) == (5, distinct)


def test_a_long_job_gives_one_hint_at_processes(
    run: Run, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("table.csv", "src,tgt\nCO.CN,C\nCO,C\n")
    for command, seconds, cores, device, hints in (
        ("predict CO.CN CO", 0.0, 8, "cpu", 1),
        ("evaluate table.csv", 0.0, 8, "cpu", 1),
        ("predict CO.CN CO --processes 2", 0.0, 8, "cpu", 0),
        ("predict CO.CN CO", 1e9, 8, "cpu", 0),
        ("predict CO.CN CO", 0.0, 1, "cpu", 0),
        ("predict CO.CN CO", 0.0, 8, "cuda", 0),
    ):
        monkeypatch.setattr(jobs, "_LONG", seconds)
        monkeypatch.setattr(workers, "usable_cores", lambda cores=cores: cores)
        loaded["model"].device = device
        assert run(command) == 0
        assert run.err.count("hint: --processes all uses all 8 cores") == hints


def test_several_models_answer_as_one(run: Run) -> None:
    for number in (1, 2, 3):
        checkpoints.write(tiny.checkpoint(number), f"m{number}")
    job = "predict CCO C --raw --max-length 9 -f jsonl -o"
    assert run(f"{job} out.jsonl -m m1 -m m2") == 0
    (expected,) = molspec.load(["m1", "m2"]).predict(["CCO"], max_length=9)
    found = json.loads(Path("out.jsonl").read_text().splitlines()[0])["predictions"][0]
    assert found["log_prob"] == expected.predictions[0].log_prob
    assert run(f"{job} out.jsonl -m m1+m2") == 0  # the same job
    assert "nothing was left to do" in run.err
    assert run(f"{job} out.jsonl -m m1+m3") == 2
    assert run(f"{job} m2/config.json -m m1 -m m2 --overwrite") == 2
    assert "which it reads as --model m2" in run.err


def test_a_model_without_a_task_writes_no_reactions(run: Run, loaded: Loaded) -> None:
    loaded["model"].task = None
    write("a.tsv", "src\ttgt\nCO\tOC\n")
    for job in ("predict CO", "score a.tsv"):
        assert run(f"{job} -f rsmi") == 2
        assert "the model does not say which side it answers" in run.err


def test_several_processes_write_the_same_file_as_one(run: Run) -> None:
    write("in.smi", "".join(f"{'C' * (1 + number % 7)}O m{number}\n" for number in range(60)))
    contents = set()
    for count in ("1", "2", "all"):
        run(f"predict -i in.smi -o {count}.csv --processes {count} -n 2")
        contents.add(Path(f"{count}.csv").read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output_has_other_names(name: str) -> None:
    """They lead to a file if the shell sends standard output into one."""
    in_shell(f"predict C.O -f smi -o {name} > out.smi")
    assert Path("out.smi").read_text() == "C.O\t1\t1\t0.606531\n"
    assert [path.name for path in Path().iterdir()] == ["out.smi"]


def test_more_processes_than_cores_give_a_warning(
    run: Run, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    for count, told in (("3", True), ("2", False)):
        assert run(f"predict CO --processes {count}") == 0
        warning = f"--processes {count} is more than the number of usable cores, 2"
        assert (warning in run.err) == told


def test_a_summary_counts_answered_and_refused_queries(run: Run, loaded: Loaded) -> None:
    write("in.smi", "C.O\nC.X\nO.X\n")
    assert run("predict -i in.smi -f jsonl") == 1
    (summary,) = run.err.splitlines()
    assert summary.startswith(f"molspec: 1 of 3 {ANSWERED.format(2)}in ")
    assert summary.endswith('s; each has its "error" in the output')
    for seconds in ("in ", "nothing was left to do"):
        assert run("predict -i in.smi -o out.csv") == 1
        assert run.err.startswith(f"molspec: 1 of 3 {ANSWERED.format(2)}{seconds}")
        assert run.err.endswith('; each has its "error" in out.csv\n')
    assert run("predict C.O O.C") == 0  # the answers need no summary
    assert run.err == ""


def test_predicting_the_product_of_a_single_molecule_gives_a_hint(run: Run, loaded: Loaded) -> None:
    for queries, status, is_hinted in (
        ("CO", 0, True),
        ("CO C.O", 0, False),
        ("'C>O>'", 0, False),
        ("X", 1, False),  # not a molecule: the error suffices
    ):
        assert run(f"predict {queries}") == status
        assert ("hint: every query is a single molecule" in run.err) == is_hinted
    loaded["model"].task = "retro"
    assert run("predict CO") == 0
    assert run.err == ""


def test_standard_input_and_output_may_not_be_one_file() -> None:
    """For example `predict -i q.smi >> q.smi`, which would read its own answers."""
    write("q.smi", "C.O\n")
    for arguments in ("-i q.smi >> q.smi", "-i - < q.smi >> q.smi", "-i - -o q.smi < q.smi"):
        done = in_shell(f"predict {arguments}")
        assert done.returncode == 2, done.stderr
        assert "which it reads as --input" in done.stderr
        assert Path("q.smi").read_text() == "C.O\n"


def test_requested_columns_of_the_input_are_copied(run: Run, loaded: Loaded) -> None:
    write("in.csv", "Compound Name;SMILES;Price\n=danger;C.O;1,5\n")
    command = "predict -i in.csv -o out.csv --copy-column Price"
    assert run(command) == 0
    (row,) = table("out.csv")
    assert (row["id"], row["query"], row["Price"]) == ("=danger", "C.O", "1,5")
    for flags, message in (
        ("--copy-column cost", "--copy-column is 'cost': expected a column of"),
        ("--copy-column Price", "--copy-column is 'Price': expected a name that no other"),
        ("-f smi", "--copy-column is 'Price': expected none, smi has no columns"),
        ("-f rsmi --token-log-probs", "--token-log-probs is True with the format rsmi: "),
    ):
        assert run(f"{command} --overwrite {flags}") == 2
        assert message in run.err
