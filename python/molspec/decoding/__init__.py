"""Decoding of token ids: the scheduler, rounds, external drafters."""

from molspec.decoding.drafter import (
    Drafter as Drafter,
    DrafterError as DrafterError,
    DraftTree as DraftTree,
    EncoderDrafter as EncoderDrafter,
    Path as Path,
    failing as failing,
    propose as propose,
    wants_hidden_states as wants_hidden_states,
)
from molspec.decoding.scheduler import (
    Request as Request,
    Scheduler as Scheduler,
    Work as Work,
    source_request as source_request,
)
from molspec.decoding.statistics import QueryStatistics as QueryStatistics, Statistics as Statistics
from molspec.engine.session import Source as Source, Strategy as Strategy
