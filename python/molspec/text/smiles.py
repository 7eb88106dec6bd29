"""Checks and canonicalises SMILES with RDKit, whose messages do not reach the terminal."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import RLock
from typing import Any

from rdkit import Chem, rdBase

from molspec.common.console import quoted
from molspec.text.bounds import too_large, too_long
from molspec.text.molecules import is_metal, read_smiles, write_smiles
from molspec.text.tokens import has_dative_bond, is_text, plain_smiles, reaction_sides, tokenize

#: Separates reactants and reagents, for models that distinguish them.
_ARROW = ">"
#: The fractional parts of its multiples spread evenly over [0, 1), for any number of them.
_GOLDEN = (5**0.5 - 1) / 2
#: Cached canonical SMILES: queries share reagents, answers share molecules, and a planner's next
#: query is one of these. Longer texts are not cached: strangers may send a megabyte.
_KEPT, _LONGEST_KEPT = 4096, 1000

#: Words, the first of which has a letter that no SMILES has outside brackets.
_NAME = re.compile(r"(?=[^ ]*[adefghijkmqtuvwxyz])[A-Za-z\d][A-Za-z\d ,'()-]{3,}")

INCHIKEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
_LONG_RING = re.compile(r"%\((\d\d)\)")
_HYDROGEN = ("[HH]", "[H][H]")
#: Tokens that an atom follows.
_BEFORE_ATOMS = frozenset("(.-=#$:/\\~")
#: What RDKit checks of a molecule whose rings are not complete.
_VALENCES = Chem.SanitizeFlags.SANITIZE_CLEANUP | Chem.SanitizeFlags.SANITIZE_PROPERTIES

#: RDKit has one log for the process, so only one thread at a time may redirect it.
_log_lock = RLock()


def _renew_log_lock() -> None:
    global _log_lock
    _log_lock = RLock()


# Fork only while no thread has redirected the log: in the child it would stay so.
os.register_at_fork(
    before=lambda: _log_lock.acquire(),
    after_in_parent=lambda: _log_lock.release(),
    after_in_child=_renew_log_lock,
)


@contextmanager
def quiet() -> Iterator[None]:
    """Redirect RDKit's messages, in one thread at a time."""
    with _log_lock, rdBase.BlockLogs():
        yield


class InvalidSmilesError(ValueError):
    """Text that is not a molecule; the message has the reason."""


def is_one_word(text: str) -> bool:
    """Whether RDKit reads the whole text as SMILES.

    It takes text after a blank as a name, and before 2024.3 also text after other characters.
    """
    return len(text.split()) <= 1 and text.isascii()


def canonicalise(smiles: str) -> str | None:
    """RDKit's canonical SMILES without atom maps; None if there is no such molecule.

    A bond `~` between whole molecules, as some write between the ions of a salt, is a dot.
    """
    if not is_one_word(smiles) or too_long(smiles):
        return None
    whole = smiles.replace("~", ".").replace(*_HYDROGEN)
    parts = [_canonical_part(part) for part in whole.split(".")]
    if None not in parts:
        return ".".join(sorted(map(str, parts)))
    return _canonical_part(smiles)  # a dot may be within a branch or a ring


def _canonical_part(smiles: str) -> str | None:
    written = _written if len(smiles) <= _LONGEST_KEPT else _written.__wrapped__
    try:
        return written(smiles)
    except (InvalidSmilesError, RuntimeError):  # RDKit's own faults
        return None


@lru_cache(_KEPT)
def _written(smiles: str) -> str | None:
    """The canonical form. Raises InvalidSmilesError, which is not cached, for most failures."""
    molecule, _ = _parse(smiles)
    if molecule is None or molecule.GetNumAtoms() == 0:
        raise InvalidSmilesError("not a molecule to RDKit")
    if ":" not in smiles:  # then there are no maps
        return _without_arrows(write_smiles(molecule))
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(0)
    # Removing the maps can change which stereo marks are needed.
    again, _ = _parse(write_smiles(molecule))
    return None if again is None else _without_arrows(write_smiles(again))


def _without_arrows(smiles: str) -> str:
    """The text with dative bonds of neutral atoms as single ones, if RDKit reads them as before."""
    if not has_dative_bond(smiles):
        return smiles
    again, _ = _parse(plain := smiles.replace("->", "").replace("<-", ""))
    bonds = () if again is None else again.GetBonds()
    arrows = [bond for bond in bonds if bond.GetBondType() == Chem.BondType.DATIVE]
    if any(bond.GetBeginAtom().GetFormalCharge() for bond in arrows):
        return smiles
    return plain if again is not None and write_smiles(again) == smiles else smiles


def without_deuterium(smiles: str) -> str:
    """SMILES with hydrogen for deuterium; the text itself if it has none or is no molecule."""
    molecule, _ = _parse(smiles) if "[2H" in smiles and is_one_word(smiles) else (None, "")
    if molecule is None:
        return smiles
    for atom in molecule.GetAtoms():
        if atom.GetAtomicNum() == 1 and atom.GetIsotope() == 2:
            atom.SetIsotope(0)
    with quiet():
        plain = Chem.RemoveHs(molecule)
        Chem.AssignStereochemistry(plain, cleanIt=True, force=True)  # of CHD centres
        return write_smiles(plain)


def is_atom(token: str) -> bool:
    """Whether RDKit reads it as an atom."""
    with quiet():
        return too_long(token) is None and Chem.AtomFromSmiles(token) is not None


def check_text(smiles: object) -> str:
    """Check that `smiles` is a string; return it as `plain_smiles`, without blanks around it.

    Raises InvalidSmilesError.
    """
    if not isinstance(smiles, str):
        raise InvalidSmilesError(f"expected a SMILES string, got {type(smiles).__name__}")
    if not is_text(smiles):
        raise InvalidSmilesError("no text: holds half a surrogate pair")
    if not (text := plain_smiles(smiles).strip().strip(".").strip()):
        raise InvalidSmilesError("empty: expected a SMILES string")
    # Other spellings of hydrogen and of ring numbers, which no model has seen.
    text = _LONG_RING.sub(r"%\1", text.replace(*_HYDROGEN))
    return text if "%(" not in text else canonicalise(text) or text


def check_notation(text: str) -> None:
    """Raise InvalidSmilesError for InChI, SMARTS, a molecule's name, and dative bonds."""
    if INCHIKEY.fullmatch(text.removeprefix("InChIKey=")):
        raise InvalidSmilesError(f"not SMILES: {quoted(text)}; an InChIKey tells no atoms")
    if text.startswith("InChI="):
        fault = f"not SMILES but InChI: {quoted(text)}"
        raise InvalidSmilesError(f"{fault}; RDKit or OpenBabel converts it")
    if _NAME.fullmatch(text):
        raise InvalidSmilesError(f"not SMILES: {quoted(text)}; names are not looked up")
    if "[#" in text:
        fault = f"not SMILES but SMARTS: {quoted(text)}"
        raise InvalidSmilesError(f"{fault}: expected atoms by symbols")
    _check_bonds(text)


def check_sides(sides: Sequence[str]) -> None:
    """Raise InvalidSmilesError, with the reason, for a side that is not a molecule to RDKit.

    Also for `~` at a metal without charge, which may join a ligand or another molecule.
    """
    for side in sides:
        molecule, log = _parse(side)
        if molecule is None:
            typeset = (each for each in side if not each.isascii())  # such as a dash for a minus
            reason = next((f"{quoted(each)} is not of SMILES" for each in typeset), _reason(log))
            raise InvalidSmilesError(f"not a molecule to RDKit: {reason}")
        for bond in molecule.GetBonds() if "~" in side else ():
            ends = (bond.GetBeginAtom(), bond.GetEndAtom())
            if bond.HasQuery() and any(is_metal(end) and not end.GetFormalCharge() for end in ends):
                fault = f"a bond ~ at a metal: {quoted(side)}"
                raise InvalidSmilesError(f"{fault}: expected a dot, or a bond")


def check_beginning(text: str) -> None:
    """Raise InvalidSmilesError if no SMILES begins with the tokens of `text`.

    Branches and rings may be open. They are closed here, with dummy atoms, so that RDKit can judge.
    """
    tokens = tokenize(text)
    numbers = Counter(token for token in tokens if token.isdigit() or token[0] == "%")
    closed = text + "*" * (tokens[-1] in _BEFORE_ATOMS)
    closed += ")" * (tokens.count("(") - tokens.count(")"))
    closed += "".join(f".*{number}" for number, count in numbers.items() if count % 2)
    with quiet():
        molecule = read_smiles(closed, sanitize=False)
        if molecule is None or Chem.SanitizeMol(molecule, _VALENCES, catchErrors=True):
            raise InvalidSmilesError("no molecule's SMILES begins with it")


def with_dots(text: str) -> str:
    """SMILES with a dot for each bond `~` between whole molecules, as between the ions of a salt.

    Unchanged if a `~` is within a branch or a ring, or at a metal without charge.
    """
    parts = text.replace("~", ".").split(".")
    if "~" not in text or any(_canonical_part(part) is None for part in parts):
        return text
    try:
        check_sides([text])
    except InvalidSmilesError:
        return text
    return text.replace("~", ".")


def canonical_query(smiles: object) -> str:
    """RDKit's canonical SMILES without atom maps.

    Some models read `reactants>reagents`: then each side is molecules, or empty.

    Raises InvalidSmilesError or TokenizationError, with the reason.
    """
    text = check_text(smiles)
    check_notation(text)
    tokenize(text)
    return canonical_sides(sides_of(text))


def canonical_sides(sides: Sequence[str]) -> str:
    """`canonical_query` of the sides of a text, see `sides_of`."""
    check_sides([side for side in sides if "~" in side])
    canonical = [canonicalise(side) if side else "" for side in sides]
    written = [side for side in canonical if side is not None]
    if len(written) < len(canonical):
        check_sides(sides)
        raise InvalidSmilesError("not a molecule to RDKit without its atom maps")
    for text in written:
        _check_bonds(text, "RDKit writes it with a dative bond, ")
    return _ARROW.join(written)


def other_spellings(canonical: str, count: int) -> list[str]:
    """At most `count` other SMILES of a canonical one, beginning at atoms all over the molecule.

    Deterministic; fewer if the molecule has no more. A smaller count gives the first of them.
    """
    molecule, _ = _parse(canonical)
    if molecule is None:
        return []
    found: dict[str, None] = {canonical: None}
    atoms = range(molecule.GetNumAtoms())
    for atom in sorted(atoms, key=lambda atom: atom * _GOLDEN % 1.0):
        if len(found) > count:
            break
        found.setdefault(_write_from(molecule, atom))
    return list(found)[1:]


def _write_from(molecule: Chem.Mol, atom: int) -> str:
    """SMILES in which the atom's component begins at it; components keep their order.

    Before 2024.3 RDKit itself fails at an atom of another part than the first.
    """
    places: list[tuple[int, ...]] = []
    parts = Chem.GetMolFrags(molecule, asMols=True, sanitizeFrags=False, fragsMolAtomMapping=places)
    written = (
        write_smiles(part, place.index(atom) if atom in place else -1)
        for part, place in zip(parts, places, strict=True)
    )
    return ".".join(sorted(written))


def sides_of(text: str) -> list[str]:
    """The sides of a checked text of tokens. Raises InvalidSmilesError unless it has one or two."""
    parts = reaction_sides(text)
    if len(parts) > 2:
        raise InvalidSmilesError("a whole reaction: expected one side of it")
    if not any(parts):
        raise InvalidSmilesError(f"no molecule: {quoted(text)}")
    return parts


def _check_bonds(text: str, fault: str = "it has a dative bond: ") -> None:
    if has_dative_bond(text):
        raise InvalidSmilesError(f"{fault}{quoted(text)}: expected bonds that SMILES has")


def _parse(smiles: str) -> tuple[Chem.Mol | None, str]:
    """Parse; also return RDKit's log, if it can be captured (from RDKit 2026.03 on)."""
    capture = getattr(rdBase, "CaptureErrorLog", None)
    with quiet():
        if reason := too_large(smiles):
            return None, reason
        molecule = read_smiles(smiles)
        if molecule is not None or capture is None:
            return molecule, ""
        with capture() as log:  # capturing the log of every text would take longer than reading it
            read_smiles(smiles)
        return None, _messages(log)


def _messages(log: Any) -> str:
    """The log's text. RDKit truncates lines anywhere, even within a UTF-8 character."""
    try:
        return str(log.messages)
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


def _reason(log: str) -> str:
    """RDKit's first line without its time, its prefix and its copy of the SMILES."""
    first = log.partition("\n")[0]
    reason = re.sub(r"^\[[\d:]+\] |SMILES Parse Error: | (while parsing|for input): .*", "", first)
    position = re.search(r"around position (\d+)", log)
    near = f" near position {position[1]}" if position else ""
    return " ".join(reason.split()) + near if reason else "it gives no reason"
