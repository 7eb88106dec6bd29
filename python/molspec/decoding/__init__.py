"""Decoding of token ids: the scheduler, rounds, external drafters."""

from molspec._native import DraftTree as DraftTree
from molspec.decoding.drafter import Drafter as Drafter, DrafterError as DrafterError, Path as Path
from molspec.decoding.scheduler import Request as Request, Scheduler as Scheduler, Work as Work
from molspec.decoding.statistics import QueryStatistics as QueryStatistics, Statistics as Statistics
from molspec.engine.session import Source as Source, Strategy as Strategy
