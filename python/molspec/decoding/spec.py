"""What is asked of the search of one query, from the strategy to the engines."""

from __future__ import annotations

from dataclasses import dataclass

from molspec import _native
from molspec.decoding.drafter import Drafter


@dataclass(frozen=True, eq=False)
class SearchSpec:
    """A search and who drafts for it.

    search: plain values, of which the host makes a search and a device its rounds.
    drafter: who drafts where the search asks for drafts from outside.
    """

    search: _native.SearchSpec
    drafter: Drafter | None = None
