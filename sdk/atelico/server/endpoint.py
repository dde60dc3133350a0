"""What all endpoints share: they are ASGI apps that may raise, and every error becomes a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from atelico.protocol.base import Wire, encode
from atelico.server.errors import as_atelico_error, error_response
from atelico.server.state import ServerState

Handler = Callable[[ServerState, Request, Send], Awaitable[Response | None]]


class Endpoint:
    """One path's handler as an ASGI app. The handler returns a response, or None when it has sent one itself."""

    def __init__(self, state: ServerState, handler: Handler) -> None:
        self._state = state
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._handler(self._state, request, send)
        except ClientDisconnect:
            return
        except Exception as error:
            response = error_response(as_atelico_error(error))
        if response is not None:
            await response(scope, receive, send)


def json_response(message: Wire) -> Response:
    """`message` with status 200."""
    return Response(encode(message), media_type="application/json")
