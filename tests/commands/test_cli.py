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
from molspec.commands import cli
from molspec.common import console
from molspec.common.console import one_line_errors
from molspec.prediction.options import PredictOptions
from molspec.text import canonicalise
from tests import tiny
from tests.conftest import Loaded, Run

Captured = pytest.CaptureFixture[str]
PROGRAM = [sys.executable, "-m", "tests.cli_with_fake_model"]
ROOT = Path(__file__).parents[2]


def test_arguments_are_answered_in_order(run: Run, loaded: Loaded) -> None:
    assert run("predict", "CO", "N.C") == 0
    assert (run.out, run.err) == ("CO\n   1.   60.7 %  CO\nN.C\n   1.   60.7 %  C.N\n", "")
    assert (loaded["name"], loaded["device"], loaded["dtype"]) == ("product", "cpu", None)


def test_a_failed_query_gives_status_1_and_others_are_answered(run: Run, loaded: Loaded) -> None:
    assert run("predict", "CO", "X", "CN", "--format", "jsonl") == 1
    results = [json.loads(line) for line in run.out.splitlines()]
    assert [result["error"] for result in results] == [None, "it has an X", None]


def test_options_reach_the_model(run: Run, loaded: Loaded) -> None:
    flags = "-n 2 --beam-size 4 --max-length 90 --augmentations 3"
    assert run("predict", "C", *flags.split(), "-m", "retro", "--dtype", "bfloat16") == 0
    assert (loaded["name"], loaded["dtype"]) == ("retro", "bfloat16")
    assert (
        loaded["model"].options
        == PredictOptions(n_best=2, beam_size=4, max_length=90, augmentations=3).distinct()
    )


def test_the_threads_flag_sets_the_number_of_threads(run: Run) -> None:
    before = molspec.get_num_threads()
    try:
        assert run("predict", "CC(=O)O.OCC", "--threads", "2") == 0
        assert molspec.get_num_threads() == 2
    finally:
        molspec.set_num_threads(before)
    assert run("predict", "C", "--threads", "0") == 2


def write_table(folder: Path) -> Path:
    table = folder / "table.tsv"
    table.write_text("src\ttgt\nCO\tOC\nCN\tC\nCCO\tC(\n")
    return table


def test_evaluate_writes_json(run: Run, loaded: Loaded, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nCX\tC\nCC\tCN\nCN\tCC\n")
    columns = ("--query-column", "b", "--target-column", "a", "--offset", "1", "--limit", "2")
    options = ("--n-best", "3", "--batch-size", "2", "--format", "json", "--dtype", "bfloat16")
    assert run("evaluate", str(tmp_path / "a.tsv"), *columns, *options) == 0
    summary = json.loads(run.out)
    assert summary["queries"] == 2
    assert summary["accuracy"] == {"1": 0.0, "3": 0.0}
    assert summary["settings"]["batch_size"] == loaded["model"].options.batch_size == 2
    assert (loaded["name"], loaded["dtype"]) == ("product", "bfloat16")


def test_evaluate_counts_failed_queries_and_gives_status_1(
    run: Run, loaded: Loaded, tmp_path: Path
) -> None:
    table, output = tmp_path / "a.tsv", tmp_path / "out.jsonl"
    table.write_text("query\ttarget\nCX\tC\nCN\tCN\nCCO\tC(\n")
    for _ in range(2):  # the second run reads its results from the file
        assert run("evaluate", str(table), "--output", str(output), "-m", "retro") == 1
        out, err = run.out, run.err
        assert "retro, cpu, float32" in out
        assert "query -> target" in out
        assert "3; 1 failed; 1 with a target that is not a molecule" in out
        assert "1             50.0 %     9.5 to 90.5             2" in out
        assert err.startswith("molspec: 1 of 3 targets are not molecules to RDKit")
    assert len(output.read_text().splitlines()) == 4


def test_score_writes_the_log_probs_of_targets(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("id,product,reactants\nUS1,CC(=O)Nc1ccccc1,CC(=O)Cl.Nc1ccccc1\n2,CX,C\n")
    flags = ("--format", "jsonl", "--batch-size", "2")
    assert run("score", str(table), "--model", "retro", *flags) == 1
    first, second = (json.loads(line) for line in run.out.splitlines())
    assert first["id"] == "US1"
    model = molspec.load("retro")
    (expected,) = model.log_probs([first["query"]], ["CC(=O)Cl.Nc1ccccc1"])
    assert first["predictions"][0]["canonical"] == "CC(=O)Cl.Nc1ccccc1"
    assert first["predictions"][0]["log_prob"] == expected.predictions[0].log_prob
    assert "'X'" in second["error"]
    output = str(tmp_path / "scores.jsonl")
    for _ in range(2):  # the second time, nothing is left to do
        assert run("score", str(table), "--model", "retro", "-o", output) == 1
    assert [json.loads(line) for line in Path(output).read_text().splitlines()] == [first, second]
    assert "1 of 2 queries answered, 1 refused, 0 failed, nothing was left to do" in (run.err)
    assert run("score", str(table), "--model", "retro", "-o", output, "--aligned") == 1
    assert run("score", str(table), "--model", "retro", "-o", output, "--plain") == 2
    assert "aligned is False, but" in run.err
    assert run("score", str(table), "--model", "retro", "--plain", *flags) == 1
    (plain,) = model.log_probs([first["query"]], ["CC(=O)Cl.Nc1ccccc1"], aligned=False)
    (found, _) = (json.loads(line) for line in run.out.splitlines())
    assert found["predictions"][0]["log_prob"] == plain.predictions[0].log_prob
    text = table.read_text()
    assert run("score", str(table), "--model", "retro", "-o", str(table), "--overwrite") == 2
    assert f"{table}, which it reads as TABLE" in run.err
    assert table.read_text() == text
    table.write_text("product,reactants\n")
    assert run("score", str(table), "--model", "retro") == 2
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
def test_an_unusable_standard_stream_is_reported(tmp_path: Path, arguments: str) -> None:
    write_table(tmp_path)
    done = in_shell(arguments, tmp_path)
    assert (done.returncode, done.stderr) == (2, f"molspec: {CLOSED[arguments]}\n")


def test_no_file_gets_the_descriptor_of_a_closed_stream(tmp_path: Path) -> None:
    done = in_shell("predict CO --output out.jsonl <&- >&- 2>&-", tmp_path)
    assert done.returncode == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["query"] == "CO"


def in_shell(arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = f"exec {sys.executable} -m tests.cli_with_fake_model {arguments}"
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    streams: dict[str, Any] = {"capture_output": True, "text": True}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=os.environ | {"PYTHONPATH": path}, **streams
    )


@pytest.mark.parametrize("command", ["predict CO --max-length 3", "score t.tsv", "evaluate t.tsv"])
def test_a_job_reads_its_checkpoint_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    checkpoints.write(tiny.checkpoint(), tmp_path / "model")
    (tmp_path / "t.tsv").write_text("src\ttgt\nCO\tC\n")
    monkeypatch.chdir(tmp_path)
    read_paths: list[Path] = []

    def record_read(path: Path) -> Checkpoint:
        read_paths.append(path)
        return checkpoints.folder.read(path)

    monkeypatch.setattr(checkpoints, "read", record_read)
    assert run(*command.split(), "--model", "model") == 0
    assert read_paths == [Path("model")]


def test_evaluate_refuses_other_settings(run: Run, loaded: Loaded, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    command = ("evaluate", str(write_table(tmp_path)), "--output", str(output))
    assert run(*command) == 0
    before = output.read_text()
    assert run(*command, "--n-best", "2") == 2
    assert run.err.startswith("molspec: n_best is 2, but ")
    assert output.read_text() == before


#: The beginning of each error, and a part of it.
WRONG_USE = {
    "predcit": ("there is no command 'predcit'", "did you mean predict?"),
    "predict C --no-such-option": ("No such option", "--no-such-option"),
    "predict C --output ''": ("''", "No such file"),
    "evaluate absent.tsv": ("absent.tsv", "No such file"),
    "evaluate .": (".", "Is a directory"),
    "evaluate empty.smi": ("empty.smi", "--query-column"),
    "evaluate table.tsv --by a": ("group_column", "'a'"),
    "evaluate table.tsv --offset 3": ("there are no such rows in TABLE", ""),
    "evaluate table.tsv --limit 0": ("limit", "0"),
    "evaluate table.tsv --output table.tsv": ("table.tsv", "take another file"),
    "evaluate table.tsv --output absent/out.jsonl": ("absent/out.jsonl", "No such file"),
    "evaluate table.tsv --output /dev/full": ("/dev/full", "Is a device"),
    "predict C -n two": ("n_best", "'two'"),
    "predict C -f xyz": ("format", "'xyz'"),
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
    "predict C --output out.csv.gz -f csv": ("output", "'out.csv.gz'"),
    "predict C --output out.xyz": ("output", "'out.xyz'"),
    "predict --input some.smi --column a": ("column", "'a'"),
}


@pytest.mark.parametrize("arguments", WRONG_USE)
def test_wrong_use_gives_a_one_line_error_and_status_2(
    run: Run, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.smi").write_text("CO\n")
    (tmp_path / "empty.smi").touch()
    write_table(tmp_path)
    assert run(*shlex.split(arguments)) == 2
    begin, part = WRONG_USE[arguments]
    assert run.out == ""
    assert run.err.startswith(f"molspec: {begin}")
    assert part in run.err
    assert run.err.count("\n") == 1
    assert (tmp_path / "some.smi").read_text() == "CO\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model prodcut", "prodcut"),
        ("--model broken", "config.json"),
        ("--dtype float64", "dtype"),
    ],
)
def test_an_unusable_model_leaves_the_output_unchanged(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "broken" / "model.safetensors").touch()
    (tmp_path / "results.jsonl").write_text("yesterday's\n")
    assert run("predict", "C", "--output", "results.jsonl", *arguments.split()) == 2
    assert message in run.err
    assert (run.out, run.err.count("\n")) == ("", 1)
    assert (tmp_path / "results.jsonl").read_text() == "yesterday's\n"


def test_the_bundled_model_predicts_an_acylation(run: Run) -> None:
    assert (
        run("predict", "Nc1ccccc1.CC(Cl)=O", "CC(=O", "CC.[U]", "acetic acid", "-f", "jsonl") == 1
    )
    answered, invalid, unknown, named = map(json.loads, run.out.splitlines())
    assert canonicalise(answered["predictions"][0]["smiles"]) == "CC(=O)Nc1ccccc1"
    assert answered["predictions"][0]["log_prob"] < 0
    assert invalid["error"].startswith("not a molecule to RDKit: ")
    assert unknown["error"] == "not in the model's vocabulary: '[U]'"
    assert named["error"].startswith("not SMILES: 'acetic acid'; names are not looked up")


def test_info(run: Run) -> None:
    assert run("info") == 0
    assert "model       retro" in run.out
    assert run("info", "product") == 0
    assert "model       retro" not in run.out
    assert run("info", "absent") == 2


def test_convert(run: Run, tmp_path: Path) -> None:
    mine, absent, other = (str(tmp_path / name) for name in ("mine", "absent", "other"))
    for _ in range(2):
        assert run("convert", "retro", mine, "--dtype", "bfloat16") == 0
    assert (read(Path(mine)).dtype, read(Path(mine)).runs_in["cpu"]) == ("bfloat16", "int8")
    for arguments, message in (
        (("retro", mine), f"{mine}: exists already"),
        (("retro", other, "--dtype", "int8"), "dtype is 'int8'"),
        ((absent, other), f"no model '{absent}'"),
    ):
        assert run("convert", *arguments) == 2
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
    assert run("--help") == 0
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


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "molspec", "--version"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.startswith("molspec ")


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
    run: Run, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(0, 10_000, 25))
    monkeypatch.setattr(console, "perf_counter", lambda: next(times))
    (tmp_path / "in.smi").write_text("C.O\n" * 6)
    assert run("predict", "-i", str(tmp_path / "in.smi"), "-o", str(tmp_path / "out.csv")) == 0
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


def run_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Runs a command with a terminal as its standard error; gives the text shown there."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with open(end, "w") as screen, open(terminal, "rb", buffering=0) as shown_bytes:
        monkeypatch.setattr(sys, "stderr", screen)
        assert run(*arguments) == 0
        monkeypatch.undo()
        screen.write("end")
        screen.flush()
        seen = ""
        while not seen.endswith("end"):
            seen += shown_bytes.read(4096).decode()
    return seen.removesuffix("end")


@pytest.mark.parametrize(("count", "shown"), [(5, False), (60, True)])
def test_only_many_queries_get_a_progress_bar(
    run: Run,
    loaded: Loaded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    shown: bool,
) -> None:
    (tmp_path / "in.smi").write_text("C.O\n" * count)
    loaded["model"].seconds = 0.01
    seen = run_on_a_terminal(run, monkeypatch, "predict", "--input", str(tmp_path / "in.smi"))
    assert (f"{count}/{count} [" in seen) == shown
    summary = f"molspec: {count} of {count} queries answered, 0 refused, 0 failed, in "
    assert seen.rpartition("molspec: ")[2].startswith(summary[9:])
    assert shown or seen.startswith(summary)


def test_loading_shows_a_temporary_progress_bar(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments = ("predict", "CC(=O)O.OCC", "-o", str(tmp_path / "out.csv"))
    seen = run_on_a_terminal(run, monkeypatch, *arguments)
    assert "loading PyTorch |" in seen
    assert "loading product |" in seen
    assert "\rmolspec: 1 of 1 queries answered" in seen


def test_a_resumed_evaluation_shows_its_progress(
    run: Run, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.tsv").write_text("src\ttgt\n" + "CO\tOC\n" * 50)
    command = ("evaluate", str(tmp_path / "table.tsv"), "--output", str(tmp_path / "out.jsonl"))
    assert run(*command, "--limit", "20") == 0
    loaded["model"].seconds = 0.02
    seen = run_on_a_terminal(run, monkeypatch, *command, "--limit", "40")
    assert "40/40" in seen
    assert "top-1 100.0 %" in seen


def test_molspec_alone_lists_the_commands(run: Run, capfd: Captured) -> None:
    assert run() == 0
    assert "Find routes from purchasable molecules to targets." in capfd.readouterr().out
