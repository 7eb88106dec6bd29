"""Connections of clients, which are closed if they are slow, or their headers too long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from httptools import HttpParserUpgrade, HttpRequestParser

if TYPE_CHECKING:  # which cannot read httptools
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Base
else:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base

#: Seconds within which the headers of a request must arrive, then its body, and within which a
#: client must read a part of its answer.
REQUEST_SECONDS = 30.0
#: Bytes of a request's address and headers, or of its trailers.
MOST_HEAD_BYTES = 64 * 1024
#: Bytes of an answer that a client must read in that time.
_LEAST_READ = 64 * 1024
_REASON = b'{"detail": "the headers are too large: expected at most %d bytes"}' % MOST_HEAD_BYTES
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_REASON), _REASON)
)


class _Parser:
    """httptools' parser, which by itself ends where a client offers another protocol.

    Java's offers HTTP/2 with each request. A server may ignore that (RFC 9110, 7.8): the head is
    parsed again without it.
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol, self._parser = protocol, HttpRequestParser(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    @property
    def has_offer(self) -> bool:
        """Whether the head offers another protocol."""
        return bool(self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT")

    def feed_data(self, data: bytes) -> None:
        """Parse further bytes."""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as end:
            if not self.has_offer:
                raise
            kept = [each for each in self._protocol.headers if each[0] != b"upgrade"]
            words = (self._parser.get_method(), self._protocol.url, b"HTTP/1.1")
            head = [b" ".join(words), *map(b": ".join, kept), b""]
            self._parser = HttpRequestParser(self._protocol)
            self.feed_data(b"\r\n".join((*head, data[end.args[0] :])))


class Protocol(_Base):
    """uvicorn's connection, which by itself waits for ever, and reads headers without end."""

    _alarm: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    #: Bytes since the parser last had a whole head or a part of a body.
    _unparsed = 0
    url: bytes  # uvicorn's
    headers: list[tuple[bytes, bytes]]

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self.parser = _Parser(self)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Start the time limit of a request when it begins."""
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()
        if self.cycle is not None and not self.cycle.response_complete:
            self._rest()  # the application has it
        elif self._alarm is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Pass a request on unless its head is too long, or is parsed again."""
        if self.parser.has_offer:
            return
        head = sum(len(name) + len(value) for name, value in self.headers) + len(self.url)
        if head > MOST_HEAD_BYTES:
            raise ValueError  # to the parser, which refuses the request
        self._unparsed = 0
        super().on_headers_complete()  # type: ignore[misc]

    def on_message_complete(self) -> None:
        """End a request, unless it is parsed again."""
        if not self.parser.has_offer:
            super().on_message_complete()  # type: ignore[misc]

    def on_body(self, body: bytes) -> None:
        """Note that the body goes on."""
        self._unparsed = 0
        super().on_body(body)  # type: ignore[misc]

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser cannot read, or whose head is too long."""
        if self._unparsed > MOST_HEAD_BYTES:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        self.transport.write(_REFUSAL)
        self.transport.close()

    def pause_writing(self) -> None:
        """Start the time limit of a client that must read."""
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Stop that limit."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _watch_reading(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(REQUEST_SECONDS, self._check_reading, left)

    def _check_reading(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < _LEAST_READ:
            self.transport.abort()
        else:
            self._watch_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limits."""
        self._rest()
        super().connection_lost(exc)
        if self._reading is not None:
            self._reading.cancel()

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
