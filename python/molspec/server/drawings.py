"""Drawings for the page: molecules, or a reaction with its changes in colour."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from rdkit import Chem

from molspec.files.report import svg
from molspec.server.reaction_center import Change, changes
from molspec.server.service import Service, refusing
from molspec.text import is_one_word, quiet, write_smiles

_MOST_CHARACTERS = 1000
_MOST_ATOMS = 200
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


class DrawBody(BaseModel):
    """SMILES of molecules, separated by dots; with a product, those of a reaction."""

    model_config = ConfigDict(extra="forbid")

    smiles: Annotated[str, Field(min_length=1, max_length=_MOST_CHARACTERS)]
    product: Annotated[str | None, Field(max_length=_MOST_CHARACTERS)] = None


class Drawing(BaseModel):
    """A molecule: canonical SMILES without atom maps, and an SVG in the colour of the text."""

    smiles: str
    svg: str


class Drawings(BaseModel):
    """A drawing of every molecule of `smiles`, and of the product if one is given."""

    molecules: list[Drawing]
    product: Drawing | None


def make_router(service: Service) -> APIRouter:
    """The route, for an application to include."""
    router = APIRouter(prefix="/v1", tags=["v1"])

    @router.post("/draw")
    async def draw(body: DrawBody) -> Drawings:
        """Draw molecules; with a product, the reaction's changes are in colour."""
        with refusing("body"):
            (drawings,) = await service.in_pieces(
                lambda each: drawn(each.smiles, each.product), [body]
            )
        return drawings

    return router


@lru_cache(maxsize=1024)
def drawn(smiles: str, product: str | None) -> Drawings:
    """Raise ValueError, naming the argument, if it is no molecule to RDKit or too large."""
    whole = _read("smiles", smiles)
    parts = Chem.GetMolFrags(whole, asMols=True)
    if product is None:
        return Drawings(molecules=[_drawing(part, Change()) for part in parts], product=None)
    made = _read("product", product)
    of_parts, of_made = changes(parts, made)
    return Drawings(
        molecules=[_drawing(part, change) for part, change in zip(parts, of_parts, strict=True)],
        product=_drawing(made, of_made),
    )


def _read(name: str, smiles: str) -> Chem.Mol:
    with quiet():
        molecule = Chem.MolFromSmiles(smiles) if is_one_word(smiles) else None
    if molecule is None or not molecule.GetNumAtoms():
        raise ValueError(f"{name} is {smiles!r}: expected a molecule to RDKit")
    if molecule.GetNumAtoms() > _MOST_ATOMS:
        raise ValueError(
            f"{name} has {molecule.GetNumAtoms()} atoms: expected at most {_MOST_ATOMS}"
        )
    return molecule


def _drawing(molecule: Chem.Mol, change: Change) -> Drawing:
    bare = Chem.Mol(molecule)
    for atom in bare.GetAtoms():
        atom.SetAtomMapNum(0)
    drawn = svg(
        bare, _in_colour, highlightAtoms=sorted(change.atoms), highlightBonds=sorted(change.bonds)
    )
    return Drawing(smiles=write_smiles(bare), svg=drawn.replace(_INK, "currentColor"))


def _in_colour(options: Any) -> None:
    options.clearBackground = False
    options.updateAtomPalette(_PALETTE)
    options.setHighlightColour(_CHANGED)
