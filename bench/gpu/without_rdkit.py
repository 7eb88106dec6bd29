"""Machines with a GPU and no network may lack RDKit: the queries here are known to be molecules."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types


def provide() -> None:
    """Stand in for RDKit where it is missing: every SMILES is a molecule."""
    if importlib.util.find_spec("rdkit") is not None:
        return
    package = types.ModuleType("rdkit")
    chemistry = types.SimpleNamespace(MolFromSmiles=lambda _smiles: object())
    base = types.SimpleNamespace(BlockLogs=contextlib.nullcontext)
    vars(package).update(Chem=chemistry, rdBase=base)
    sys.modules["rdkit"] = package
