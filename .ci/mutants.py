"""Makes small faults in the product, one at a time, and counts those that the tests find.

`python .ci/mutants.py` copies the checkout to build/mutants, changes an operator, a constant or a
condition there, or removes a statement, builds, and runs the tests of that folder until one fails.
A mutant that lives is a hole in the tests or means the same as the code: only a reader can tell. A
seed gives the same mutants while their lines stay, so runs before and after a change compare.

    python .ci/mutants.py --seed 1 --count 50 --results killed.txt csrc/rules csrc/search

A mutant with a line in the file of results is not run again. A folder of tests runs if those before
it found nothing, so a result names the first that did.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build/mutants"
#: csrc/search also lays out the rows of modules without a cache.
_SEARCHES = ("search", "drafting", "prediction", "laws", "engine", "drop_in")
_PYTHON = (
    "checkpoints", "commands", "common", "drafting", "drop_in", "evaluation", "files", "model",
    "planners", "prediction", "server", "text", "training",
)  # fmt: skip
#: The folders of tests that cover a folder of the product.
TESTS = {
    **dict.fromkeys(("csrc/rules", "csrc/search", "python/molspec/decoding"), _SEARCHES),
    **dict.fromkeys(("csrc/draft_models", "csrc/drafting", "csrc/text"), ("drafting", "search")),
    **dict.fromkeys(("csrc/cpu", "csrc/ops", "python/molspec/engine"), ("engine", "search")),
    **{f"python/molspec/{name}": (name,) for name in _PYTHON},
    # The tests compile it, so a mutant that is no code counts as killed.
    **dict.fromkeys(("csrc/cuda", "python/molspec/engine/cuda"), ("cuda",)),
}
_CODE = {".cpp", ".cu", ".cuh", ".h", ".inl", ".py"}
_OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "and": "or", "or": "and", "+": "-", "-": "+", "*": "+", "+=": "-=", "-=": "+=",
}  # fmt: skip
#: What replaces what; an operator has a space on both sides, a template's bracket has not.
_CHANGES = [(rf"(?<=[^ ] ){re.escape(old)}(?= )", new) for old, new in _OPERATORS.items()] + [
    (r"(?<![\w.\"'])\d+(?![\w.\"'])", r"(\g<0> + 1)"),
    (r"(?<=\bif )\((.*)\)(?=( \{| \w.*;)?$)", r"(!(\1))"),
    (r"(?<=\bif )([^(].*)(?=:$)", r"not (\1)"),
    (r"^( +)[\w.\->\[\]]+(\(.*\)|( [-+|&]?=|\+\+|--).*);$", r"\1;"),
    (r"^( +)[\w.\[\]]+(\(.*\)| [-+|&]?= .*[\w)\]])$", r"\1pass"),
]
#: Lines that stay: os.killpg of group 1, not 0, would end every process of the machine.
_NOT_CODE = re.compile(
    r"\s*(//|#|@|\"|static_assert|require|throw_|raise|from|import|case|using|os\.kill)"
)
#: The finder of an editable package would come before the copy, also where tests start a process.
_SITE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
"""


def mutants(folder: str) -> Iterator[tuple[str, int, str, str]]:
    """Every mutant of a folder: the file, the index of the line, the line, what it becomes."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix not in _CODE or path.name.startswith("bind_"):
            continue
        in_docstring = False
        for index, line in enumerate(path.read_text().splitlines()):
            in_docstring ^= line.count('"""') == 1
            if in_docstring or '"""' in line or _NOT_CODE.match(line):
                continue
            code = re.split("  (?://|#)", line)[0]
            for pattern, new in _CHANGES:
                for found in re.finditer(pattern, code):
                    changed = code[: found.start()] + found.expand(new) + code[found.end() :]
                    yield str(path.relative_to(ROOT)), index, line, changed


def configured() -> None:
    """Bring the copy up to date, where no file that is the same gets a new time; prepare builds."""
    listed = subprocess.check_output(("git", "ls-files"), cwd=ROOT, text=True).splitlines()
    texts = {COPY / "tree" / name: ROOT / name for name in listed if (ROOT / name).is_file()}
    contents = {path: source.read_bytes() for path, source in texts.items()}
    for path, content in (contents | {COPY / "site/sitecustomize.py": _SITE.encode()}).items():
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in {*(COPY / "tree").rglob("*.[chip]*")} - {*contents}:
        if path.suffix in _CODE:
            path.unlink()  # it left the checkout
    where = subprocess.check_output((sys.executable, "-m", "pybind11", "--cmakedir"), text=True)
    # Debug is without optimisation over all files, which takes long.
    options = ("-GNinja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS=-O1", "-DMOLSPEC_CUDA=OFF")
    paths = (f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={where.strip()}")
    command = ("cmake", "-S", COPY / "tree", "-B", COPY / "build", *options, *paths)
    subprocess.run(command, check=True)


def built() -> bool:
    """Build the libraries of the copy; whether that succeeds."""
    build = ("cmake", "--build", COPY / "build")
    install = ("cmake", "--install", COPY / "build", "--prefix", COPY / "tree/python")
    return all(not subprocess.run(s, capture_output=True).returncode for s in (build, install))


def passes(folder: str, seconds: float) -> bool:
    """Whether all tests of a folder pass in the copy, in this time."""
    environment = os.environ | {"PYTHONPATH": f"{COPY / 'site'}:{COPY / 'tree/python'}"}
    command = (sys.executable, "-m", "pytest", "-x", "-n2", f"tests/{folder}")
    where = {"cwd": COPY / "tree", "env": environment, "stdout": subprocess.DEVNULL}
    started = subprocess.Popen(command, **where, start_new_session=True)
    try:
        return started.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)


def outcome(name: str, index: int, new: str, folders: Sequence[str]) -> str:
    """Change a line of the copy, and take the change back."""
    path = COPY / "tree" / name
    text = path.read_text()
    lines = text.splitlines()
    path.write_text("\n".join((*lines[:index], new, *lines[index + 1 :], "")))
    try:
        if name.startswith("csrc") and not built():
            return "is not built"
        failing = (folder for folder in folders if not passes(folder, 600))
        return next((f"killed by {folder}" for folder in failing), "lives")
    finally:
        path.write_text(text)


def main() -> None:
    """Run the mutants that have no result yet, and say how many were killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=list(TESTS), help="of the product")
    parser.add_argument("--count", type=int, default=50, help="mutants, of those that are built")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=ROOT / "build/mutants.txt")
    given = parser.parse_args()
    found = {  # by the file and both lines, which stay if other lines change
        f"{path}: {old.strip()} -> {new.strip()}": (path, index, new, TESTS[folder])
        for folder in given.folders
        for path, index, old, new in mutants(folder)
    }
    drawn = sorted(found, key=lambda name: sha256(f"{given.seed} {name}".encode()).digest())
    configured()
    if not built():
        sys.exit("the checkout is not built")
    known = {}
    if given.results.is_file():
        lines = given.results.read_text().splitlines()
        known = {name: result for result, name in (line.split("\t") for line in lines)}
    elif not all(passes(test, 3600) for test in {test for *_, of in found.values() for test in of}):
        sys.exit("the tests fail as they are")
    counts: Counter[str] = Counter()
    for name in drawn:
        if counts.total() - counts["is not built"] == given.count:
            break
        if name not in known:
            known[name] = outcome(*found[name])
            with given.results.open("a") as results:
                results.write(f"{known[name]}\t{name}\n")
        counts[known[name]] += 1
        print(f"{known[name]:12} {name}", flush=True)
    print(", ".join(f"{number} {each}" for each, number in sorted(counts.items())))


if __name__ == "__main__":
    main()
