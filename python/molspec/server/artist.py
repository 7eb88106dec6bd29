"""Draws molecules, and reactions with their changes in colour, in a process that can be ended."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import Connection, Pipe
from typing import Any

from rdkit import Chem
from rdkit.Chem import rdDepictor
from rdkit.Geometry import Point3D

from molspec.files.report import svg
from molspec.server.reaction_center import Change, changes
from molspec.text import is_one_word, quiet, read_smiles, too_many_rings, write_smiles

#: Drawings that wait, and seconds for which they do; then they are refused.
_MOST_WAITING, _LONGEST_WAIT = 64, 10
#: Seconds of the CPU for a drawing. RDKit's searches do not keep their own limits, so the system
#: ends the process; a further request starts another.
_SECONDS = 3
_MOST_BYTES = 2 << 30
_MOST_ATOMS = 200
#: Below it atoms lie in no direction.
_LEAST_TURN = 1e-6
#: Readable on light and on dark paper: red, green and blue of atoms, and of changes.
_PALETTE = {
    7: (0.26, 0.47, 0.95),
    8: (0.90, 0.25, 0.25),
    9: (0.16, 0.60, 0.35),
    15: (0.85, 0.47, 0.10),
    16: (0.72, 0.53, 0.05),
    17: (0.16, 0.60, 0.35),
    35: (0.70, 0.33, 0.20),
    53: (0.58, 0.25, 0.75),
}
_CHANGED = (0.98, 0.72, 0.20, 0.55)
#: RDKit's colour of carbon and bonds; the page's text colour replaces it.
_INK = "#000000"


class Artist:
    """A process that makes one drawing at a time. It starts with the first one.

    Nothing else waits for it: a molecule that takes RDKit minutes delays other drawings only.
    """

    def __init__(self) -> None:
        self._lane = ThreadPoolExecutor(1, thread_name_prefix="molspec drawings")
        self._waiting = 0
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    async def draw(self, smiles: str, product: str | None) -> dict[str, Any]:
        """As `drawn`. Raises ValueError too if it takes too much time or memory.

        Raises TimeoutError if many others wait, or if others are drawn for some seconds. Once it
        has begun, only the process's own limits end it: on a busy machine they take long.
        """
        if self._waiting >= _MOST_WAITING:
            raise asyncio.TimeoutError
        self._waiting += 1
        try:
            drawing = self._lane.submit(self._ask, smiles, product)
            ended = asyncio.wrap_future(drawing)
            await asyncio.wait({ended}, timeout=_LONGEST_WAIT)
            if drawing.cancel():
                raise asyncio.TimeoutError
            answer = await ended
        finally:
            self._waiting -= 1
        if isinstance(answer, ValueError):
            raise answer
        drawings: dict[str, Any] = answer
        return drawings

    def _ask(self, smiles: str, product: str | None) -> Any:
        if self._connection is None:
            # Not a fork: this process has threads, and weights.
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = Pipe()
            self._process = context.Process(target=_work, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        try:
            self._connection.send((_SECONDS, smiles, product))
            return self._connection.recv()
        except (EOFError, OSError):
            self.close()
            limits = f"{_SECONDS} s or {_MOST_BYTES >> 30} GiB"
            return ValueError(f"smiles takes more than {limits} to draw: expected simpler ones")

    def close(self) -> None:
        """End the process, whatever it does. A further drawing starts another."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None and connection is not None:
            process.kill()
            process.join()
            connection.close()


def _work(connection: Connection) -> None:
    """Draw until the server ends, or this process is over a limit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's, for the server
    os.nice(10)  # predictions go first
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, even within RDKit
    with suppress(ValueError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    while True:
        try:
            seconds, smiles, product = connection.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer: Any = drawn(smiles, product)
        except ValueError as error:
            answer = error
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send(answer)


@lru_cache(maxsize=256)
def drawn(smiles: str, product: str | None) -> dict[str, Any]:
    """A drawing of every molecule of `smiles`, and of the product if one is given.

    Raises ValueError, naming the argument, if it is not a molecule to RDKit or too large.
    """
    whole = _read("smiles", smiles)
    parts = Chem.GetMolFrags(whole, asMols=True)
    if product is None:
        return {"molecules": [_drawing(part, Change()) for part in parts], "product": None}
    made = _read("product", product)
    of_parts, of_made = changes(parts, made)
    rdDepictor.Compute2DCoords(made)
    for part, change in zip(parts, of_parts, strict=True):
        _turn(part, made, change.there)
    return {
        "molecules": [_drawing(part, change) for part, change in zip(parts, of_parts, strict=True)],
        "product": _drawing(made, of_made),
    }


def _turn(part: Chem.Mol, product: Chem.Mol, there: Mapping[int, int]) -> None:
    """Lay out a reactant, turned as its atoms lie in the product."""
    rdDepictor.Compute2DCoords(part)
    if len(there) < 2:
        return
    ours, theirs = part.GetConformer().GetPositions(), product.GetConformer().GetPositions()
    points = ours[:, 0] + 1j * ours[:, 1]
    aims = theirs[[*there.values()], 0] + 1j * theirs[[*there.values()], 1]
    points -= points[[*there]].mean()
    aims -= aims.mean()
    turns = [(each, (each[[*there]].conj() * aims).sum()) for each in (points, points.conj())]
    points, turn = max(turns, key=lambda each: abs(each[1]))
    if abs(turn) > _LEAST_TURN:
        points = points * turn / abs(turn)
    for index, point in enumerate(points):
        part.GetConformer().SetAtomPosition(index, Point3D(point.real, point.imag, 0.0))


def _read(name: str, smiles: str) -> Chem.Mol:
    with quiet():
        is_bounded = is_one_word(smiles) and not too_many_rings(smiles)
        molecule = read_smiles(smiles) if is_bounded else None
    if molecule is None or not molecule.GetNumAtoms():
        raise ValueError(f"{name} is {smiles!r}: expected a molecule to RDKit")
    if molecule.GetNumAtoms() > _MOST_ATOMS:
        raise ValueError(
            f"{name} has {molecule.GetNumAtoms()} atoms: expected at most {_MOST_ATOMS}"
        )
    return molecule


def _drawing(molecule: Chem.Mol, change: Change) -> dict[str, str]:
    """Canonical SMILES without atom maps, and an SVG in the colour of the text."""
    bare = Chem.Mol(molecule)
    for atom in bare.GetAtoms():
        atom.SetAtomMapNum(0)
    text = svg(
        bare, _in_colour, highlightAtoms=sorted(change.atoms), highlightBonds=sorted(change.bonds)
    )
    return {"smiles": write_smiles(bare), "svg": text.replace(_INK, "currentColor")}


def _in_colour(options: Any) -> None:
    options.clearBackground = False
    options.updateAtomPalette(_PALETTE)
    options.setHighlightColour(_CHANGED)
