"""Evaluates a model on a table of queries and targets: accuracy, faults and costs."""

from molspec.evaluation.evaluation import Evaluation, Settings
from molspec.evaluation.pairs import Pair, PairTable
from molspec.evaluation.record import Record
from molspec.evaluation.summary import Summary
from molspec.evaluation.tables import report

__all__ = ["Evaluation", "Pair", "PairTable", "Record", "Settings", "Summary", "report"]
