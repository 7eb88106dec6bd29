"""Counts for `/metrics`, in the form of Prometheus: of queries by model, of requests by path."""

import os

import prometheus_client as prometheus
from prometheus_client.multiprocess import MultiProcessCollector

from molspec.prediction.results import Result

#: Names the folder in which several processes store their counts, which are then added up.
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
prometheus.disable_created_metrics()
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)

_queries = prometheus.Counter("molspec_queries", "Queries by outcome.", ["model", "outcome"])
_unanswered = prometheus.Gauge(
    "molspec_unanswered_queries",
    "Queries that are accepted and not answered.",
    ["model"],
    multiprocess_mode="livesum",
)
_calls = prometheus.Counter(
    "molspec_query_decoder_calls", "Decoder calls, of each query.", ["model"]
)
_tokens = prometheus.Counter("molspec_emitted_tokens", "Emitted tokens.", ["model"])
_drafted = prometheus.Counter(
    "molspec_accepted_draft_tokens", "Emitted tokens that were drafted.", ["model"]
)
_requests = prometheus.Histogram(
    "molspec_request_seconds",
    "Requests until their last byte.",
    ["path", "status"],
    buckets=_SECONDS,
)


def add_up(folder: str) -> None:
    """Let the processes that are forked from now on store their counts there, to be added up."""
    os.environ[_FOLDER] = folder
    prometheus.values.ValueClass = prometheus.values.MultiProcessValue()


class ModelCounters:
    """The counts of one model. Every accepted query is answered, refused or withdrawn."""

    def __init__(self, name: str) -> None:
        outcomes = ("accepted", "answered", "refused", "withdrawn")
        self.accepted, self.answered, self.refused, self.withdrawn = (
            _queries.labels(name, outcome) for outcome in outcomes
        )
        self.unanswered = _unanswered.labels(name)
        self._calls, self._tokens, self._drafted = (
            counter.labels(name) for counter in (_calls, _tokens, _drafted)
        )

    def count(self, result: Result) -> None:
        """Count a finished query."""
        (self.answered if result.error is None else self.refused).inc()
        self.unanswered.dec()
        self._calls.inc(result.statistics.decoder_calls)
        self._tokens.inc(result.statistics.emitted_tokens)
        self._drafted.inc(result.statistics.accepted_tokens)

    def let_go(self, count: int) -> None:
        """Count withdrawn queries."""
        self.withdrawn.inc(count)
        self.unanswered.dec(count)


def request(path: str, status: int, seconds: float) -> None:
    """Count a finished request; `path` is a route's, not the client's text."""
    _requests.labels(path, str(status)).observe(seconds)


def exposition() -> tuple[bytes, str]:
    """All counts, of all processes, and their media type."""
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return prometheus.generate_latest(prometheus.REGISTRY), prometheus.CONTENT_TYPE_LATEST
    registry = prometheus.CollectorRegistry()
    MultiProcessCollector(registry)
    return prometheus.generate_latest(registry), prometheus.CONTENT_TYPE_LATEST
