"""Time by length: of every regular expression of the package, and of all that RDKit is given."""

import ast
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from threading import stack_size
from time import thread_time
from timeit import repeat
from typing import Any

import molspec
from molspec import text
from molspec.files import Query, prepare_query, sdf
from molspec.text import drawing, reactions, rxn, smiles as of_smiles
from molspec.training import rooting, variation
from tests.fuzz.draw import Draw

_FOLDER = Path(molspec.__file__).parent
_USES = ("match", "fullmatch", "search", "findall", "finditer", "sub", "split")
#: The expressions that functions of a module are given.
_GIVEN = {
    "common.tables": "[*_KINDS.values(), *_TEXT_KINDS.values()]",
    "training.reactions": "[re.compile('(edge|bond)[ _-]?[0-9]+', re.IGNORECASE)]",
    "model.foreign": "[*_FOREIGN]",
    "text.molecules": "[_STEREO, _CHARGE]",
    "text.tokens": "_patterns(('Sn', '[Sn]'))",
    "checkpoints.opennmt": r"['decoder\\.(\\d+)\\.', _BIASES]",
    "checkpoints.names": "[rule for name in ('names.TORCH_LAYERS', 'opennmt._NAMES', "
    "'hugging_face._NAMES', 'chemformer._NAMES', 'hugging_face_t5._NAMES') for rule, _ in "
    "vars(import_module('molspec.checkpoints.' + name.split('.')[0]))[name.split('.')[1]]]",
}
#: Seconds below which times are not compared, and how many times as long as an eighth of a text the
#: whole may take: 8 if the time is linear, 64 if it is quadratic.
_SOON, _MOST = 0.1, 24.0
#: Seconds that RDKit may take for what it is given, on a busy machine.
_SLOW = 5.0
_PIECES = (
    *("", "C", "c", "[", "C(", "C1", "%(", ".", "*", "C=C", "C(C)", "[Fe]<-N", "N[C@@H](C)C(=O)"),
    *("C1CC1", "C%12", "~", ">", "C/C=C/", "(", "1", "[H]", "M  V30 1 C 0 0 0 0\n", "CCO"),
)
#: The stack of a thread where stacks are unlimited.
_STACK = 2 << 20
_READERS: tuple[Callable[[str], Any], ...] = (
    *(text.canonicalise, text.canonical_query, of_smiles.check_beginning, text.without_deuterium),
    *(drawing.drawing, reactions.is_reaction, of_smiles.is_atom),
    lambda made: reactions.reaction_part(f"{made}>>{made}", "retro"),
    lambda made: prepare_query(Query(made), True, True),
    lambda made: rooting.Molecule.parse(made),
    lambda made: variation.vary(f"{made}>>{made}", 1, None),
    lambda made: [*sdf.read_records(iter(made.splitlines(True)))],
    lambda made: [*rxn.read_rxn(iter(["$RXN\n", *made.splitlines(True)]))],
)


@cache
def found() -> list[tuple[str, re.Pattern[Any], str]]:
    """Every expression of the package, by the name of its module, and how it is used."""
    every = []
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(_FOLDER.rglob("*.py"))}
    calls = [
        (path, getattr(node.func.value, "id", getattr(node.func.value, "attr", "")), node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (*_USES, "compile")
        if isinstance(node.func, ast.Attribute)
    ]
    for path, owner, call in calls:
        if owner != "re":
            continue
        name = ".".join(path.relative_to(_FOLDER).with_suffix("").parts)
        module = vars(import_module(f"molspec.{name}"))
        said = ast.unparse(call.args[0])
        try:
            values = [eval(said if call.func.attr != "compile" else ast.unparse(call), module)]
        except NameError:  # it is of the function around it
            assert name in _GIVEN, f"{path}: add {said} to _GIVEN of {__name__}"
            values = eval(_GIVEN[name], {**module, "import_module": import_module})
        for pattern in values:
            pattern = re.compile(pattern)
            # Equal, not the same: `re` forgets what it compiled.
            known = {
                key
                for key, value in module.items()
                if isinstance(value, re.Pattern) and value == pattern
            }
            uses = {n.func.attr for _, o, n in calls if o in known} & set(_USES)
            uses = uses or {call.func.attr} - {"compile"} or {"findall"}
            every += [(name, pattern, use) for use in sorted(uses)]
    return list(dict.fromkeys(every))


def expressions(draw: Draw) -> None:
    """An expression takes a time in proportion to its text, of which a piece comes many times."""
    name, pattern, use = draw.choice(found())
    is_text = isinstance(pattern.pattern, str)
    source = pattern.pattern if is_text else pattern.pattern.decode("latin-1")
    alphabet = sorted({*source, *"a1 \r\n"})
    begin, other, end = ("".join(draw.some(2, lambda: draw.choice(alphabet))) for _ in range(3))
    for piece in {part for each in alphabet for part in (each, other + each)}:

        def run(length: int, piece: str = piece) -> object:
            made = begin + piece * (length // len(piece)) + end
            given: Any = made if is_text else made.encode("latin-1", "replace")
            arguments = (given[:0], given) if use == "sub" else (given,)
            answer = getattr(pattern, use)(*arguments)
            return [*answer] if use == "finditer" else answer

        check_time(run, 1 << 15, f"{name}: {use} of {source!r} in {begin!r} {piece!r}... {end!r}")


def readers(draw: Draw) -> None:
    """Any text of any length ends in a time in proportion to it, in a thread of a small stack."""
    read = draw.choice(_READERS)
    begin, piece, end = draw.text(20), draw.choice(_PIECES) or draw.text(6) or "C", draw.text(20)
    longest = draw.choice([1 << 12, 1 << 14, 1 << 16, 1 << 20])

    def run(length: int) -> None:
        with suppress(ValueError):
            read(begin + piece * (length // len(piece)) + end)

    before = stack_size(_STACK)
    try:
        with ThreadPoolExecutor(1) as small:
            what = f"{read} of {begin!r} {piece!r}... {end!r}"
            small.submit(check_time, run, longest, what, 4 * _SLOW).result()
    finally:
        stack_size(before)


def check_time(run: Callable[[int], object], longest: int, what: str, soon: float = _SOON) -> None:
    """Raise AssertionError unless the time of a run is at most in proportion to its length."""
    seconds, length = [0.0] * 3, 16
    while length <= longest:
        began = thread_time()
        run(length)
        seconds.append(thread_time() - began)
        if seconds[-1] > max(soon, _MOST * seconds[-4]):  # again: the machine may be busy
            eighth, whole = (partial(run, each) for each in (length // 8, length))
            took = [min(repeat(each, "", thread_time, 3, 1)) for each in (eighth, whole)]
            assert took[1] < max(soon, _MOST * took[0]), f"{what}: {took[1]:.2f} s for {length}"
        length *= 2
