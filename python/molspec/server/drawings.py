"""Drawings for the page: molecules, or a reaction with its changes in colour."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from molspec.server.service import Service, refusing
from molspec.server.worker import BusyError

_MOST_CHARACTERS = 1000


class DrawBody(BaseModel):
    """SMILES of molecules, separated by dots; with a product, those of a reaction."""

    model_config = ConfigDict(extra="forbid")

    smiles: Annotated[str, Field(min_length=1, max_length=_MOST_CHARACTERS)]
    product: Annotated[str | None, Field(max_length=_MOST_CHARACTERS)] = None


class Drawing(BaseModel):
    """A molecule: canonical SMILES without atom maps, and an SVG in the colour of the text."""

    smiles: str
    svg: str
    for_sale: Annotated[
        str | None, Field(description='Its name in the stock, "" if it has none there.')
    ] = None


class Drawings(BaseModel):
    """A drawing of every molecule of `smiles`, and of the product if one is given."""

    molecules: list[Drawing]
    product: Drawing | None


def make_router(service: Service) -> APIRouter:
    """The route, for an application to include."""
    router = APIRouter(prefix="/v1", tags=["v1"])

    @router.post("/draw", responses={429: {"description": "Too many drawings wait."}})
    async def draw(body: DrawBody) -> Drawings:
        """Draw molecules; with a product, the reaction's changes are in colour."""
        try:
            with refusing("body"):
                drawings = Drawings(**await service.artist.draw(body.smiles, body.product))
        except asyncio.TimeoutError:
            raise BusyError(1, "drawings") from None
        if service.stock is not None:
            every = [*drawings.molecules, *filter(None, [drawings.product])]
            names = await service.in_pieces(service.stock.get, [each.smiles for each in every])
            for each, name in zip(every, names, strict=True):
                each.for_sale = name
        return drawings

    return router
