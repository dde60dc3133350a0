"""One HTTP connection: uvicorn's, with limits it does not have and with OpenAI's error bodies."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from atelico.errors import AtelicoError, BusyError, InvalidRequestError
from atelico.protocol.base import encode
from atelico.protocol.error import error_body
from atelico.server.options import ServerOptions


def connection_class(options: ServerOptions) -> type[asyncio.Protocol]:
    """The class whose instances speak HTTP on one connection each."""

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > options.max_connections:
                self._refuse(503, BusyError("Too many connections are open.", hint="Close some."))
            else:
                self.loop.call_later(options.body_timeout_s, self._close_unless_asked)

        def _close_unless_asked(self) -> None:
            """Nothing, or only part of a request's head, has come."""
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, InvalidRequestError(msg))

        def _refuse(self, status: int, error: AtelicoError) -> None:
            body = encode(error_body(error))
            head = f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + body)
            self.transport.close()

    return Connection
