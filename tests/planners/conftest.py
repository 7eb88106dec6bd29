"""Targets, a stock that contains the starting materials of routes, and a limit of searches."""

from pathlib import Path

#: From PaRoutes' set n1 (Genheden and Bjerrum 2022), as are the molecules of the stock.
TARGETS = (Path(__file__).parent / "targets.smi").read_text().split()
STOCK = Path(__file__).parent / "stock.smi"
#: Limit in expansions, so that a search is the same on every machine.
EXPANSIONS = 12
