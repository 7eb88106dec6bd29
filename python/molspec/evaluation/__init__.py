"""Evaluates a model on a table of queries and targets: accuracy, faults and costs."""

from molspec.evaluation.evaluation import Evaluation as Evaluation, Settings as Settings
from molspec.evaluation.pairs import Pair as Pair, PairTable as PairTable
from molspec.evaluation.record import Record as Record
from molspec.evaluation.summary import Summary as Summary
from molspec.evaluation.tables import report as report
