"""Connections of clients, which are closed if a request stays incomplete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

#: Seconds within which the headers of a request must arrive, and then its body.
REQUEST_SECONDS = 30.0

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Base
else:
    _Base = AutoHTTPProtocol


class Protocol(_Base):
    """uvicorn's connection, which by itself waits for headers forever."""

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Start the time limit of a request when it begins."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()  # the application has it
        elif self._alarm is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._rest()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._alarm = self.loop.call_later(REQUEST_SECONDS, self._close)

    def _rest(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _close(self) -> None:
        self._alarm = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
