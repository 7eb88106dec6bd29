"""Targets with what their routes begin with, and the model that finds them."""

from __future__ import annotations

from pathlib import Path

#: Of PaRoutes' set n1 (Genheden and Bjerrum 2022), with molecules of its stock.
TARGETS = (Path(__file__).parent / "targets.smi").read_text().split()
STOCK = Path(__file__).parent / "stock.smi"
#: Expansions, so that a search is the same on every machine.
EXPANSIONS = 12
