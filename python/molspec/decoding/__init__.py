"""What decodes: requests that come and go, rounds, drafts from outside. Token ids only."""

from __future__ import annotations

from molspec.decoding.drafter import Drafter, DraftTree, Path, wants_hidden_states
from molspec.decoding.requests import Requests, Source
from molspec.decoding.rounds import Session
from molspec.decoding.spec import SearchSpec
from molspec.decoding.statistics import QueryStatistics, Statistics

__all__ = [
    "DraftTree",
    "Drafter",
    "Path",
    "QueryStatistics",
    "Requests",
    "SearchSpec",
    "Session",
    "Source",
    "Statistics",
    "wants_hidden_states",
]
