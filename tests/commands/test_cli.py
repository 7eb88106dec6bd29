import fcntl
import json
import os
import pty
import shlex
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
import torch

import molspec
from molspec import checkpoints
from molspec.checkpoints import Checkpoint, read
from molspec.commands import cli, jobs
from molspec.common import console, workers
from molspec.common.console import one_line_errors
from molspec.prediction.options import PredictOptions
from molspec.text import canonicalise
from tests import tiny
from tests.commands.conftest import PROGRAM, ROOT, in_shell, write
from tests.conftest import Loaded, Run

Captured = pytest.CaptureFixture[str]
TABLE = "src\ttgt\nCO\tOC\nCN\tC\nCCO\tC(\n"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_arguments_are_answered_in_order(run: Run, loaded: Loaded) -> None:
    """A failed query gives status 1, and the others are answered."""
    assert run("predict CO N.C") == 0
    assert (run.out, run.err) == ("CO\n   1.   60.7 %  CO\nN.C\n   1.   60.7 %  C.N\n", "")
    assert (loaded["name"], loaded["device"], loaded["dtype"]) == ("product", "cpu", None)
    assert run("predict CO X CN --format jsonl") == 1
    assert [result["error"] for result in lines(run.out)] == [None, "it has an X", None]


def test_options_reach_the_model(run: Run, loaded: Loaded) -> None:
    flags = "-n 2 --beam-size 4 --max-length 90 --augmentations 3"
    assert run(f"predict C {flags} -m retro --dtype bfloat16") == 0
    assert (loaded["name"], loaded["dtype"]) == ("retro", "bfloat16")
    expected = PredictOptions(n_best=2, beam_size=4, max_length=90, augmentations=3)
    assert loaded["model"].options == expected.distinct()


def test_the_threads_flag_sets_the_number_of_threads(run: Run) -> None:
    before = molspec.get_num_threads()
    try:
        assert run("predict CC(=O)O.OCC --threads 2") == 0
        assert molspec.get_num_threads() == 2
    finally:
        molspec.set_num_threads(before)
    assert run("predict C --threads 0") == 2


def test_evaluate_prints_a_summary(run: Run, loaded: Loaded) -> None:
    write("a.tsv", "a\tb\nC\tC\nC\tCX\nCN\tCN\nC(\tCCO\nC\tC\n")
    columns = "--query-column b --target-column a --offset 1 --limit 3"
    command = f"evaluate a.tsv {columns} -n 3 --batch-size 2 --dtype bfloat16 -m retro"
    assert run(command) == 1
    told = (
        "retro, cpu, bfloat16",
        "b -> a",
        "3; 1 failed; 1 with a target",
        "1             50.0 %",
    )
    assert all(each in run.out for each in told)
    why, excluded, *_ = run.err.splitlines()
    assert why == "molspec: 1 of 3 queries failed: it has an X"
    assert excluded.startswith("molspec: 1 of 3 targets are not molecules to RDKit")
    assert (loaded["name"], loaded["dtype"]) == ("retro", "bfloat16")
    assert run(f"{command} --format json") == 1
    summary = json.loads(run.out)
    assert (summary["queries"], summary["accuracy"]) == (3, {"1": 0.5, "3": 0.5})
    assert summary["settings"]["batch_size"] == loaded["model"].options.batch_size == 2
    write("a.tsv", "src\ttgt\nC\tC(\n")
    assert run("evaluate a.tsv") == 1  # nothing was measured


def test_score_writes_the_log_probs_of_targets(run: Run) -> None:
    text = "id,product,reactants\nUS1,CC(=O)Nc1ccccc1,CC(=O)Cl.Nc1ccccc1\n2,CX,C\n"
    write("a.csv", text)
    model, command = molspec.load("retro"), "score a.csv -m retro --batch-size 2"
    for flags, aligned in (("", True), ("--plain", False)):
        assert run(f"{command} -f jsonl {flags}") == 1
        first, second = lines(run.out)
        assert first["id"] == "US1"
        (expected,) = model.log_probs([first["query"]], ["CC(=O)Cl.Nc1ccccc1"], aligned=aligned)
        assert first["predictions"][0]["log_prob"] == expected.predictions[0].log_prob
        assert first["predictions"][0]["canonical"] == "CC(=O)Cl.Nc1ccccc1"
        assert "'X'" in second["error"]
    for flags, told in (
        ("", "1 of 2 queries answered, 1 refused, 0 failed, in "),
        ("--aligned", "1 of 2 queries answered, 1 refused, 0 failed, nothing was left to do"),
        ("--plain", "aligned is False, but"),
        ("-o a.csv --overwrite", "a.csv, which it reads as TABLE"),
    ):
        output = "" if "-o" in flags else "-o scores.jsonl"
        assert run(f"{command} {output} {flags}") == (1 if "answered" in told else 2)
        assert told in run.err
    assert Path("a.csv").read_text() == text
    write("a.csv", "product,reactants\n")
    assert run(command) == 2
    assert run.err == "molspec: there are no queries in TABLE\n"


@pytest.mark.parametrize("arguments", [("predict", "C"), ("info",)])
def test_an_unknown_instruction_set_gives_a_one_line_error(arguments: tuple[str, ...]) -> None:
    environment = {**os.environ, "MOLSPEC_INSTRUCTION_SET": "none such"}
    command = [sys.executable, "-m", "molspec", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("molspec: MOLSPEC_INSTRUCTION_SET is 'none such': expected portable, ")


CLOSED = {
    "predict CO >&-": "standard output is closed",
    "evaluate table.tsv >&-": "standard output is closed",
    "--version >&-": "standard output is closed",
    "predict --input - <&-": "--input is -: standard input is closed",
    "predict CO >/dev/full": "standard output: No space left on device",
    "evaluate table.tsv >/dev/full": "standard output: No space left on device",
    "--version >/dev/full": "standard output: No space left on device",
}


@pytest.mark.parametrize("arguments", CLOSED)
def test_an_unusable_standard_stream_is_reported(arguments: str) -> None:
    write("table.tsv", TABLE)
    done = in_shell(arguments)
    assert (done.returncode, done.stderr) == (2, f"molspec: {CLOSED[arguments]}\n")


def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    assert in_shell("predict CO --output out.jsonl <&- >&- 2>&-").returncode == 0
    assert json.loads(Path("out.jsonl").read_text())["query"] == "CO"


@pytest.mark.parametrize("command", ["predict CO --max-length 3", "score t.tsv", "evaluate t.tsv"])
def test_a_job_reads_its_checkpoint_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    checkpoints.write(tiny.checkpoint(), "model")
    write("t.tsv", "src\ttgt\nCO\tC\n")
    read_paths: list[Path] = []

    def record_read(path: Path) -> Checkpoint:
        read_paths.append(path)
        return checkpoints.folder.read(path)

    monkeypatch.setattr(checkpoints, "read", record_read)
    assert run(f"{command} --model model") == 0
    assert read_paths == [Path("model")]


#: The beginning of each error, and a part of it.
WRONG_USE = {
    "predcit": ("there is no command 'predcit'", "did you mean predict?"),
    "predict C --no-such-option": ("No such option", "--no-such-option"),
    "predict C --num_return-sequences 3": ("No such option", "mean '--n-best'?"),
    "predict C --output ''": ("''", "No such file"),
    "evaluate absent.tsv": ("absent.tsv", "No such file"),
    "evaluate .": (".", "Is a directory"),
    "evaluate empty.smi": ("empty.smi", "--query-column"),
    "evaluate table.tsv --by a": ("--by is", "'a'"),
    "evaluate table.tsv --offset 3": ("there are no such rows in TABLE", ""),
    "evaluate table.tsv --limit=0": ("--limit is", "0"),
    "evaluate table.tsv --output table.tsv": ("table.tsv", "take another file"),
    "evaluate table.tsv --output absent/out.jsonl": ("absent/out.jsonl", "No such file"),
    "evaluate table.tsv --output /dev/full": ("/dev/full", "Is a device"),
    "predict C -n two": ("-n is", "'two'"),
    "predict C -f xyz": ("-f is", "'xyz'"),
    "predict": ("give queries", "--input"),
    "predict C --input some.smi": ("give queries", "--input"),
    "predict some.smi": ("some.smi is a file", "--input"),
    "predict --input absent.smi": ("absent.smi", "No such file"),
    "predict --input .": (".", "Is a directory"),
    "predict --input empty.smi": ("there are no queries in empty.smi", ""),
    "predict --input some.smi --output ./some.smi": ("the job would write", "--input some.smi"),
    "predict C --output absent/out.jsonl": ("absent/out.jsonl", "No such file"),
    "predict C --output .": (".", "Is a directory"),
    "predict C --output /dev/full": ("/dev/full", "No space left on device"),
    "predict C --output out.csv.gz -f csv": ("--output is", "'out.csv.gz'"),
    "predict C --output out.xyz": ("--output is", "'out.xyz'"),
    "predict --input some.smi --column a": ("--column is", "'a'"),
    "predict C --processes two": ("--processes is", "'two'"),
    "predict C --output table.tsv": ("table.tsv is there already", "--overwrite"),
    "predict -i empty.smi --output table.tsv --overwrite": (
        "there are no queries in empty.smi",
        "",
    ),
    "plan": ("give targets", "--input"),
    "plan C --stock some.smi -n 0": ("-n is", "0"),
    "train --output out": ("give either --data FOLDER or --sample", ""),
    "train --data . --steps 1 --output out": (".: no prepared data", "prepared.json"),
    "train --data . --steps 1 --start x --output out": ("no model 'x'", ""),
    "train --sample --start retro --output out": ("--sample", "leave --start out"),
    "train --sample --config list.json --output out": ("list.json holds a list", ""),
    "prepare list.json --task both --output out": ("--task is", "'both'"),
    "prepare none --task retro --output out": ("none", "No such file"),
    "serve --model =x": ("--model is", "'=x'"),
    "serve --model a/b": ("--model is", "'a/b'"),
    "serve --model retro --model retro": ("--model names 'retro' twice", ""),
    "serve --model retro+gone": ("no model 'gone'", ""),
    "serve --max-queries 0": ("--max-queries is", "0"),
    "serve --api-key-file /dev/null": ("/dev/null holds no key", ""),
    f"serve --api-key-file {__file__}": (__file__, "begins with '#'"),
    "serve --api-key-file /no/such": ("/no/such", "No such file"),
    "serve --port 0 --dtype float8": ("--dtype is", "'float8'"),
    **{
        f"serve --allowed-origin {origin}": ("--allowed-origin is", f"'{origin}'")
        for origin in ("https://*.a.org", "lims.a.org", "https://a/", "https://a:443", "null")
    },
    "predict C -o a.csv --output b.csv": ("--output is given 2 times", ""),
    "predict C --raw --raw": ("--raw is given 2 times", ""),
    "train --output a --sample --ngram --no-ngram": ("--ngram is given 2 times", ""),
    "train --output a --steps 1 --steps 2 --sample": ("--steps is given 2 times", ""),
    "plan C --stock a --match exact --match inchikey": ("--match is given 2 times", ""),
}


@pytest.mark.parametrize("arguments", WRONG_USE)
def test_wrong_use_gives_a_one_line_error_and_status_2(
    run: Run, loaded: Loaded, arguments: str
) -> None:
    files = {"some.smi": "CO\n", "empty.smi": "", "table.tsv": TABLE, "list.json": "[1]"}
    for name, text in files.items():
        write(name, text)
    assert run(*shlex.split(arguments)) == 2
    begin, part = WRONG_USE[arguments]
    assert run.out == ""
    assert run.err.startswith(f"molspec: {begin}")
    assert part in run.err
    assert run.err.count("\n") == 1
    assert {path.name: path.read_text() for path in Path().iterdir()} == files


def test_an_unusable_model_leaves_the_output_unchanged(run: Run) -> None:
    Path("broken").mkdir()
    write("broken/config.json", "{")
    write("broken/model.safetensors", "")
    write("results.jsonl", "yesterday's\n")
    for arguments, message in (
        ("--model prodcut", "prodcut"),
        ("--model broken", "config.json"),
        ("--dtype float64", "dtype"),
    ):
        assert run(f"predict C --output results.jsonl {arguments}") == 2
        assert message in run.err
        assert (run.out, run.err.count("\n")) == ("", 1)
        assert Path("results.jsonl").read_text() == "yesterday's\n"


def test_the_bundled_model_predicts_an_acylation(run: Run) -> None:
    assert run("predict Nc1ccccc1.CC(Cl)=O CC(=O CC.[U] 'acetic acid' -f jsonl") == 1
    answered, invalid, unknown, named = lines(run.out)
    assert canonicalise(answered["predictions"][0]["smiles"]) == "CC(=O)Nc1ccccc1"
    assert answered["predictions"][0]["log_prob"] < 0
    assert invalid["error"].startswith("not a molecule to RDKit: ")
    assert unknown["error"] == "not in the model's vocabulary: '[U]'"
    assert named["error"].startswith("not SMILES: 'acetic acid'; names are not looked up")


def test_info(run: Run) -> None:
    for name, status, has_retro in (("", 0, True), ("product", 0, False), ("absent", 2, False)):
        assert run(f"info {name}") == status
        assert ("model       retro" in run.out) == has_retro


def test_convert(run: Run) -> None:
    assert run("convert retro mine --dtype bfloat16") == 0
    made = read(Path("mine"))
    assert (made.dtype, made.runs_in["cpu"]) == ("bfloat16", "int8")
    assert run("convert retro mine --dtype bfloat16") == 0
    for arguments, message in (
        ("retro mine", "mine: exists already"),
        ("retro other --dtype int8", "--dtype is 'int8'"),
        ("absent other", "no model 'absent'"),
    ):
        assert run(f"convert {arguments}") == 2
        assert run.err.startswith(f"molspec: {message}")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 MiB"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_running_out_of_memory_gives_a_one_line_error(error: Exception, capfd: Captured) -> None:
    with pytest.raises(SystemExit) as exit_info, one_line_errors():
        raise error
    assert exit_info.value.code == 2
    assert capfd.readouterr().err.startswith("molspec: there is not enough memory; a smaller")
    with pytest.raises(RuntimeError, match="another"), one_line_errors():
        raise RuntimeError("another")


def test_help_lists_every_command_once_under_a_question(run: Run) -> None:
    assert run("--help") == run("-h") == run("predict -h") == run("--help") == 0
    told = run.out
    assert run() == 0
    assert run.out == told
    names = [line.split()[0] for line in run.out.splitlines() if line.startswith("  ")]
    assert sorted(names[-len(cli._MODULES) :]) == sorted(cli._MODULES)
    assert sum(line.endswith("?") for line in run.out.splitlines()) == len(cli._QUESTIONS)
    assert max(map(len, run.out.splitlines())) <= 80


#: The modules of commands that `predict --help` needs.
PREDICTING = {"cli", "command", "flags", "jobs", "predicting"}
NOT_FOR_HELP = {"torch", "rdkit", "numpy", "pydantic"}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("predict", "--help")])
def test_help_and_version_import_no_large_packages(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys; from molspec.commands.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0
    assert "molspec" in done.stdout
    imported = done.stderr.split()
    assert not NOT_FOR_HELP & set(imported)
    commands = {name.split(".")[2] for name in imported if name.startswith("molspec.commands.")}
    assert arguments[0] != "predict" or commands == PREDICTING


def test_public_names_are_imported_on_first_use() -> None:
    code = (
        "import molspec, sys\n"
        "assert not {'torch', 'rdkit', 'numpy'} & set(sys.modules)\n"
        "molspec.drafting.TreeDraft(node_budget=3)\n"
        "assert dir(molspec) == sorted(molspec.__all__)\n"
        "import molspec.text, molspec.training\n"
        "for package in (molspec, molspec.drafting, molspec.text, molspec.training):\n"
        "    assert all(getattr(package, name) is not None for name in package.__all__)\n"
        "    assert not hasattr(package, 'other')\n"
        "from molspec import *\n"
        "PredictOptions, Statistics, Vocabulary, drafting"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def start(*arguments: str, seconds: float = 0.0, **streams: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "FAKE_SECONDS": str(seconds)}
    return subprocess.Popen([*PROGRAM, *arguments], env=environment, cwd=ROOT, text=True, **streams)


def test_results_are_written_while_queries_arrive() -> None:
    arguments = ("predict", "--input", "-", "--format", "jsonl")
    with start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for query in ("CO", "CN"):
            process.stdin.write(f"{query}\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["query"] == query
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait() == 0


def test_an_interrupt_leaves_whole_lines_and_gives_status_130() -> None:
    with start(
        "predict",
        *("--input", "/dev/stdin", "--format", "jsonl"),
        seconds=0.01,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("CO\n" * 10_000)
        process.stdin.flush()
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate()
        assert process.returncode == 130
    assert err == ""
    lines = (first + rest).splitlines(keepends=True)
    assert len(lines) < 10_000
    for line in lines:
        assert line.endswith("\n")
        assert json.loads(line)["query"] == "CO"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["predict -i in.smi -o", "evaluate in.tsv --output"])
def test_a_stopped_job_says_that_it_resumes(
    tmp_path: Path, command: str, number: int, status: int
) -> None:
    (tmp_path / "in.smi").write_text("C.O\n" * 300)
    (tmp_path / "in.tsv").write_text("src\ttgt\n" + "CO\tOC\n" * 300)
    arguments = command.replace(" in", f" {tmp_path}/in").split()
    output = tmp_path / "out.jsonl"
    journal = tmp_path / f"out.jsonl{'.journal' if 'predict' in command else ''}"
    with start(*arguments, str(output), seconds=0.01, stderr=subprocess.PIPE) as process:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
        process.send_signal(number)
        assert process.communicate()[1].count("the same command resumes") == 1
    assert process.returncode == status
    with start(*arguments, str(output), stdout=subprocess.DEVNULL) as process:
        assert process.wait() == 0
    assert len(output.read_text().splitlines()) in (300, 301)


def test_a_job_without_a_terminal_tells_its_progress(
    run: Run, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(0, 10_000, 25))
    monkeypatch.setattr(console, "perf_counter", lambda: next(times))
    write("in.smi", "C.O\n" * 6)
    assert run("predict -i in.smi -o out.csv") == 0
    first, second, _ = run.err.splitlines()
    assert first.startswith("molspec: 3 of 6 queries, 0.04 a second, about 1 minutes left")
    assert second.startswith("molspec: 6 of 6 queries")


@pytest.mark.parametrize(
    "arguments",
    ["--version", "average product product --output mean", "info product", "predict CO.C"],
)
def test_a_closed_output_pipe_gives_status_141(tmp_path: Path, arguments: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "molspec", *arguments.split()]
    ended = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(theirs)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_summary_is_printed_in_any_encoding(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("src\ttgt\tgroup\nCO\tOC\t\N{GREEK SMALL LETTER ALPHA}\n", encoding="utf-8")
    command = [*PROGRAM, "evaluate", str(table), "--by", "group"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True)
    assert ended.returncode == 0
    assert rb"\u03b1" in ended.stdout


def run_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> str:
    """Runs a command with a terminal as its standard error; gives the text shown there."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with open(end, "w") as screen, open(terminal, "rb", buffering=0) as shown_bytes:
        monkeypatch.setattr(sys, "stderr", screen)
        assert run(command) == 0
        monkeypatch.undo()
        screen.write("end")
        screen.flush()
        seen = ""
        while not seen.endswith("end"):
            seen += shown_bytes.read(4096).decode()
    return seen.removesuffix("end")


@pytest.mark.parametrize(("count", "shown"), [(5, False), (60, True)])
def test_only_many_queries_get_a_progress_bar(
    run: Run, loaded: Loaded, monkeypatch: pytest.MonkeyPatch, count: int, shown: bool
) -> None:
    write("in.smi", "C.O\n" * count)
    loaded["model"].seconds = 0.01
    monkeypatch.setattr(jobs, "_LONG", 0.3)
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    seen = run_on_a_terminal(run, monkeypatch, "predict --input in.smi")
    assert (f"{count}/{count} [" in seen) == shown
    assert ("\rmolspec: hint: " in seen) == shown  # at the line's beginning
    summary = f"molspec: {count} of {count} queries answered, 0 refused, 0 failed, in "
    assert seen.rpartition("molspec: ")[2].startswith(summary[9:])
    assert shown or seen.startswith(summary)


def test_loading_shows_a_temporary_progress_bar(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run_on_a_terminal(run, monkeypatch, "predict CC(=O)O.OCC -o out.csv")
    assert "loading PyTorch |" in seen
    assert "loading product |" in seen
    assert "\rmolspec: 1 of 1 queries answered" in seen


def test_a_resumed_evaluation_shows_its_progress(
    run: Run, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("table.tsv", "src\ttgt\n" + "CO\tOC\n" * 50)
    assert run("evaluate table.tsv --output out.jsonl --limit 20") == 0
    loaded["model"].seconds = 0.02
    command = "evaluate table.tsv --output out.jsonl --limit 40"
    seen = run_on_a_terminal(run, monkeypatch, command)
    assert "40/40" in seen
    assert "top-1 100.0 %" in seen
