"""Decoding of token ids: the scheduler, rounds, external drafters."""

from molspec.decoding.drafter import (
    Drafter,
    DrafterError,
    DraftTree,
    EncoderDrafter,
    Path,
    failing,
    propose,
    wants_hidden_states,
)
from molspec.decoding.scheduler import Request, Scheduler, Work, source_request
from molspec.decoding.statistics import QueryStatistics, Statistics
from molspec.engine.session import Source, Strategy

__all__ = [
    "DraftTree",
    "Drafter",
    "DrafterError",
    "EncoderDrafter",
    "Path",
    "QueryStatistics",
    "Request",
    "Scheduler",
    "Source",
    "Statistics",
    "Strategy",
    "Work",
    "failing",
    "propose",
    "source_request",
    "wants_hidden_states",
]
