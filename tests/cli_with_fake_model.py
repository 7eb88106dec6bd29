"""The command line with a fake model, which answers a query by its reverse, or fails at an X.

Runs as a separate process, for tests that need one. FAKE_SECONDS is the time that an answer takes.
PyTorch is imported with the model or its answers, because many commands end before that.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from molspec.commands import cli, jobs

if TYPE_CHECKING:
    from molspec.prediction.results import Result


class FakeModel:
    seconds = float(os.environ.get("FAKE_SECONDS", "0"))
    task = "product"
    device = "cpu"
    dtype = runs_in = "float32"
    canonical_queries = lacks_deuterium = True
    reader = SimpleNamespace(reads_smiles=True)

    def __init__(self) -> None:
        from molspec.prediction.config import Identity

        self.identity = Identity("product")
        self.options: Any = None

    def decode_config(self, options: Any) -> Any:
        from molspec.prediction.config import DecodeConfig

        return DecodeConfig(options, self.identity, self.canonical_queries, 200)

    def predict_stream(
        self, queries: Iterable[str], config: Any, processes: Any = 1
    ) -> Iterator[Result]:
        del processes
        self.options = config.options
        return self._answers(queries)

    def _answers(self, queries: Iterable[str]) -> Iterator[Result]:
        from molspec.prediction.results import Prediction, Result

        for query in queries:
            if self.seconds:
                time.sleep(self.seconds)
            if "X" in query:
                yield Result(query, error="it has an X")
            else:
                yield Result(query, (Prediction(query[::-1], -0.5),))


if __name__ == "__main__":
    # A shell that runs the tests in the background makes its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    jobs.load_model = lambda flags: FakeModel()  # type: ignore[assignment,return-value]
    cli.main()
