"""Replaces RDKit, which a GPU machine without a network may lack; all queries here are valid."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types


def provide() -> None:
    """Replace RDKit if it is missing; the replacement accepts every SMILES."""
    if importlib.util.find_spec("rdkit") is not None:
        return
    package = types.ModuleType("rdkit")
    chemistry = types.SimpleNamespace(
        MolFromSmiles=lambda _smiles: object(), MolToSmiles=lambda _molecule: "[CH3][Mg][Br]"
    )
    base = types.SimpleNamespace(BlockLogs=contextlib.nullcontext)
    vars(package).update(Chem=chemistry, rdBase=base)
    sys.modules["rdkit"] = package
