"""A peer in molspec's own server: the same interface and the same process, another engine.

python bench/campaigns/peering/serving.py PEER SETTING NAME=FOLDER ...

One thread for each model takes waiting queries, at most 32 with the same n_best, and answers them
as one batch to its end, because peers offer no more.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from threading import Condition, Thread
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

import uvicorn

import molspec
from molspec.prediction.model import Model
from molspec.prediction.results import Prediction, Result
from molspec.server.app import make_app
from molspec.server.limits import Limits
from molspec.server.pending import PendingRequest
from molspec.server.service import Service
from molspec.server.serving import listen, url_of
from peering.engines import ENGINES, Peer

_BATCH = 32


class PeerWorker:
    """As `molspec.server.worker.Worker`, but a batch answers its withdrawn queries, too."""

    is_alive = True

    def __init__(self, name: str, model: Model, peer: Peer) -> None:
        self.name, self.model, self._peer = name, model, peer
        self._waiting: deque[tuple[PendingRequest, int]] = deque()
        self._changed = Condition()
        Thread(target=self._work, daemon=True).start()

    def submit(self, pending: PendingRequest) -> None:
        """Accept a request."""
        with self._changed:
            self._waiting.extend((pending, index) for index in range(pending.count))
            self._changed.notify()

    def withdraw(self, pending: PendingRequest) -> None:
        """Drop the request's waiting queries."""
        with self._changed:
            self._waiting = deque(each for each in self._waiting if each[0] is not pending)

    def stop(self) -> None:
        """Does nothing: this worker does not finish requests at the end."""

    def _work(self) -> None:
        while True:
            batch = self._batch()
            read: list[tuple[PendingRequest, int, str]] = []
            for pending, index in batch:
                try:
                    source = self.model.reader.source(pending.queries[index], canonical=True)
                except ValueError as error:
                    pending.deliver([(index, Result(pending.queries[index], error=str(error)))])
                    continue
                read.append((pending, index, self.model.vocabulary.decode(source.token_ids)))
            if read:
                self._answer(read)

    def _batch(self) -> list[tuple[PendingRequest, int]]:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            n_best = _n_best(self._waiting[0][0])
            alike = [each for each in self._waiting if _n_best(each[0]) == n_best][:_BATCH]
            self._waiting = deque(each for each in self._waiting if each not in alike)
            return alike

    def _answer(self, read: list[tuple[PendingRequest, int, str]]) -> None:
        n_best = _n_best(read[0][0])
        answers = self._peer.answer([text for _, _, text in read], n_best)
        for (pending, index, _), texts in zip(read, answers, strict=True):
            found = tuple(Prediction(text, 0.0) for text in texts)
            pending.deliver([(index, Result(pending.queries[index], found))])


def _n_best(pending: PendingRequest) -> int:
    return pending.config.options.n_best


def main() -> None:
    """Serve until the process is killed."""
    peer, setting, *pairs = sys.argv[1:]
    workers: dict[str, Any] = {}
    for pair in pairs:
        name, _, folder = pair.partition("=")
        engine = ENGINES[peer](Path(folder), setting, 1)
        workers[name] = PeerWorker(name, molspec.load(name), engine)
    app = make_app(Service(workers, Limits(queries=20, n_best=20)))
    with listen("127.0.0.1", 0) as listener:
        print(f"serving at {url_of(listener)}", file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listener])


if __name__ == "__main__":
    main()
