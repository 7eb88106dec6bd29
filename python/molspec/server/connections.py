"""Connections of clients: closed where a request does not come to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

#: Seconds in which the headers of a request must have come, and then its body.
REQUEST_SECONDS = 30.0

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Base
else:
    _Base = AutoHTTPProtocol


class Protocol(_Base):
    """uvicorn's, which waits for headers for ever."""

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, for a while."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request that has begun, for a while from its beginning."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()  # the application has it
        elif self._alarm is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
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
