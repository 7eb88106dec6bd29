"""Writes _native.pyi, the types of the native library: `stub.py FOLDER_OF_NATIVE OUTPUT`.

pybind11-stubgen reads them from the library; what its signatures cannot say is added here.
"""

import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

#: Runs pybind11-stubgen on a library of a folder.
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import pybind11_stubgen as s; s.main()"
_UNTYPED = re.compile(r"^(\w+): (?:dict|str|tuple|types\.UnionType)\b.*$", re.MULTILINE)


def main(folder: str, output: str) -> None:
    """Write the types of the library in `folder`."""
    sys.path.insert(0, folder)
    native = import_module("_native")
    with tempfile.TemporaryDirectory() as made:
        options = ["_native", "--output-dir", made, "--exit-code"]
        command = [sys.executable, "-c", _RUN, folder, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        text = Path(made, "_native.pyi").read_text(encoding="utf-8")
    text = _UNTYPED.sub(lambda found: typed(native, found[1]), text)
    Path(output).write_text(text, encoding="utf-8")


def typed(native: object, name: str) -> str:
    """The line of a module's value."""
    value = getattr(native, name)
    if isinstance(value, str):
        return f"{name}: str"
    if isinstance(value, tuple):
        return f"{name}: tuple[str, ...]"
    if isinstance(value, dict):
        kind = "int" if isinstance(next(iter(value.values())), int) else "numpy.dtype[numpy.void]"
        return f"{name}: dict[str, {kind}]"
    return f"{name}: typing.TypeAlias = {' | '.join(part.__name__ for part in value.__args__)}"


main(*sys.argv[1:])
