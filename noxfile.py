"""What a change must pass. `nox` runs it all; `nox -s lint` one part.

The sessions wheel, editable, page, fuzz, torch, opennmt, syntheseus, aizynthfinder,
rdkit-2023 and ray make fresh environments; the others use the one that nox runs in, where molspec
is installed as CONTRIBUTING.md says.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.sessions = ["lint", "types", "tests"]

#: Releases of OpenNMT-py, one a format of checkpoints, with what they import. They pin a torch that
#: this Python has not, so they are installed without what they ask for.
OPENNMT = {
    "1.2.0": ("torchtext==0.4.0", "future", "sentencepiece"),
    "2.3.0": ("torchtext==0.5.0", "sacrebleu", "sentencepiece"),
    "3.5.1": ("pyonmttok", "sacrebleu", "rapidfuzz", "pyahocorasick", "spacy", "fasttext-wheel"),
}

#: With what it needs but does not say: it imports pyarrow, of which newer ones ask for NumPy 2.
AIZYNTHFINDER = ("aizynthfinder==4.4.1", "numpy<2", "pandas<3", "pyarrow<22", "h5py")

#: The oldest, and those that the suite was run with; the newest of each is taken.
TORCH = ("2.11", "2.13", "2.14", "2.15")
TORCH_TESTS = [f"tests/{part}" for part in ("drop_in", "engine", "search")]

NATIVE_FOLDERS = ("csrc", "tests", "bench")
NATIVE_SOURCES = {".h", ".cpp", ".inl", ".cu", ".cuh"}
NATIVE_TESTS = [f"tests/{part}" for part in ("drafting", "engine", "search")]
#: What a test starts as a process or forks is not instrumented.
THREAD_TESTS = ("tests/engine/test_threads.py", "-k", "bits or share")


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Style of Python and C++, who may import whom, and the lines of each ring."""
    session.run("python", ".ci/lines.py")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    native = [path for root in NATIVE_FOLDERS for path in Path(root).rglob("*")]
    sources = [path for path in native if path.suffix in NATIVE_SOURCES]
    session.run("clang-format", "--dry-run", "--Werror", *map(str, sorted(sources)))
    session.run("lint-imports", env={"PYTHONPATH": "python"})


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Types, strictly; those of the native library are read from the one that is installed."""
    where = "import pathlib, molspec._native as n; print(pathlib.Path(n.__file__).parent)"
    folder = session.run("python", "-c", where, silent=True)
    session.run("python", "cmake/stub.py", str(folder).strip(), "python/molspec/_native.pyi")
    session.run("mypy")
    # Scripts import those of their folder by name alone.
    for folder, *others in (("bench", "--exclude", "bench/gpu/"), ("bench/gpu",)):
        path = {"MYPYPATH": f"python:{folder}:bench/campaigns:."}
        session.run("mypy", "--explicit-package-bases", folder, *others, env=path)


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Build the site into build/site; a broken link or a missing page fails."""
    session.run("mkdocs", "build", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(venv_backend="none")
def notebooks(session: nox.Session) -> None:
    """Run the notebooks, and the code of README and docs."""
    session.run("pytest", "tests/test_docs.py", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """The suite; arguments go to pytest: `nox -s tests -- tests/text`."""
    session.run("pytest", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel of a release, install it in a fresh environment, and use it from elsewhere.

    On Linux it has the CUDA kernels: nvcc comes from PyPI.
    """
    folder = Path(session.create_tmp()).resolve()
    env = {}
    if sys.platform == "linux":
        nvcc = session.run(".ci/nvcc", str(folder / "nvcc"), silent=True, external=True)
        env = {
            "MOLSPEC_CUDA": "ON",
            "CUDACXX": str(nvcc).strip().splitlines()[-1],
            "CUDAARCHS": "80-real;90a-real;100-real;120-real;90-virtual",
        }
    session.run("pip", "wheel", "--no-deps", "--wheel-dir", str(folder), ".", env=env)
    (built,) = sorted(folder.glob("*.whl"))
    session.install(str(built))
    session.install("--force-reinstall", "--no-deps", str(built))  # where the version is the same
    session.chdir(folder)
    session.run("molspec", "info")
    session.run("molspec", "predict", "CC(=O)O.OCC")
    session.run("molspec", "predict", "--model", "retro", "CCOC(C)=O")
    built.unlink()


@nox.session
def editable(session: nox.Session) -> None:
    """Install from a checkout without anything built, as CONTRIBUTING.md says, and use it."""
    folder = Path(session.create_tmp()).resolve() / "checkout"
    session.run("git", "clone", "--quiet", ".", str(folder), external=True)
    session.chdir(folder)
    built_with = ("scikit-build-core>=0.11", "pybind11>=2.13", "pybind11-stubgen", "numpy", "ninja")
    session.install("torch>=2.11", *built_with)
    session.install("--no-build-isolation", "-e", ".", "-Ceditable.rebuild=true")
    session.run("molspec", "predict", "CC(=O)O.OCC")
    (folder / "csrc" / "native.cpp").touch()
    for says in (True, False):  # that it is built again; then nothing has changed
        shown = str(session.run("molspec", "predict", "CC(=O)O.OCC", silent=True))
        if ("molspec: compiles" in shown) != says:
            session.error(f"expected a line about the build: {says}; it says {shown!r}")


@nox.session
def page(session: nox.Session) -> None:
    """Use the server's page in a real browser: a Chromium that is installed is driven."""
    session.install(".[test]", "playwright")
    session.run(
        "pytest",
        "tests/server/test_page.py",
        "tests/server/test_page_routes.py",
        "-rs",
        *session.posargs,
    )


@nox.session(venv_backend="none")
def sanitize(session: nox.Session) -> None:
    """Run the tests of native code with sanitizers: addresses, undefined behaviour, threads."""
    tests = session.posargs or [*NATIVE_TESTS, "tests/fuzz"]
    session.run(".ci/sanitize", "address,undefined", *tests, external=True)
    session.run(".ci/sanitize", "thread", *THREAD_TESTS, external=True)


@nox.session(venv_backend="none")
def arm(session: nox.Session) -> None:
    """Predict on 64-bit ARM, emulated, and compare the bits; arguments go to pytest there."""
    session.run(".ci/arm", *session.posargs, external=True)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Run the fuzz targets, a minute each: `nox -s fuzz -- engine --seconds 600` runs one."""
    session.install(".[test]", "atheris>=3")
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session(venv_backend="none")
def faults(session: nox.Session) -> None:
    """Make every fault: `nox -s faults -- prepare` of one job. Takes the better part of an hour."""
    session.run("python", "-m", "tests.faults", *session.posargs)


@nox.session(venv_backend="none")
def mutants(session: nox.Session) -> None:
    """Make faults in the code, and count those that tests find: `nox -s mutants -- csrc/rules`."""
    session.run("python", ".ci/mutants.py", *session.posargs)


@nox.session
def syntheseus(session: nox.Session) -> None:
    """Search and evaluate with Syntheseus, and plan on the command line."""
    session.install(".[test,planning]")
    session.run("pytest", "tests/planners", "tests/commands/test_planning.py", *session.posargs)
    stock, target = "tests/planners/stock.smi", "CCNC[C@H](CC(=O)OC(C)(C)C)Nc1ccc(C#N)c(Cl)c1"
    session.run("molspec", "plan", target, "--stock", stock, "--dtype", "int8")


@nox.session
def aizynthfinder(session: nox.Session) -> None:
    """Search with AiZynthFinder, and read plans in tools for routes."""
    session.install(
        ".[test]", *AIZYNTHFINDER, "reaction-utils", "retrocast==0.8.3", "renkin==1.0.15"
    )
    session.run("pytest", "-W", "default", "tests/planners", *session.posargs)


@nox.session(name="rdkit-2023", python="3.11")
def rdkit_2023(session: nox.Session) -> None:
    """Read and write what depends on RDKit with the oldest one that is allowed, and NumPy 1."""
    session.install(".[test,hugging-face]", "rdkit==2023.9.6", "numpy<2")
    folders = (
        "text",
        "files",
        "checkpoints",
        "training/test_rooting.py",
        "prediction/test_model.py",
    )
    session.run("pytest", *(f"tests/{each}" for each in folders), *session.posargs)


@nox.session
def ray(session: nox.Session) -> None:
    """Answer tables by workers of Ray, of which one is killed."""
    session.install(".[test,ray,planning]")
    session.run("pytest", "tests/test_ray.py", "-n0", *session.posargs)


@nox.session
@nox.parametrize("version", TORCH)
def torch(session: nox.Session, version: str) -> None:
    """Run what touches torch with a release of it: `nox -s "torch(version='2.15')"`.

    Without an index of CPU builds, each takes 5 GB.
    """
    session.install(".[test]", f"torch=={version}.*")
    session.run("molspec", "predict", "CC(=O)Cl.Nc1ccccc1")
    session.run("molspec", "predict", "--model", "retro", "CC(=O)Nc1ccccc1")
    session.run("pytest", *TORCH_TESTS, *session.posargs)


@nox.session
@nox.parametrize("version", list(OPENNMT))
def opennmt(session: nox.Session, version: str) -> None:
    """Read what a release of OpenNMT-py saves: `nox -s "opennmt(version='3.5.1')"`."""
    session.install(".[test]")
    session.install("configargparse", "tensorboard", "flask", "waitress", *OPENNMT[version])
    session.install("--no-deps", f"OpenNMT-py=={version}")
    session.run("pytest", "tests/checkpoints/test_opennmt_library.py", *session.posargs)
