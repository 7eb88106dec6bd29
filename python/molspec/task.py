"""What a model of reactions is asked for."""

from __future__ import annotations

from typing import Literal

#: "retro": the reactants of a product; "product": the product of reactants and reagents.
Task = Literal["retro", "product"]
