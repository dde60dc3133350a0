"""Reading a request body within limits of size and time."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from atelico.server.errors import BodyTimeoutError, BodyTooLargeError
from atelico.server.options import ServerOptions

# Clients read the answer only after they have sent everything, so what is too large is still received, up to here.
_MAX_DISCARDED_BYTES = 256 * 1024 * 1024


async def read_body(request: Request, options: ServerOptions) -> bytes:
    """The whole body.

    Raises:
        BodyTooLargeError: more than `max_body_bytes`; memory is not used for the rest.
        BodyTimeoutError: not complete within `body_timeout_s`.
        ClientDisconnect: the client has gone.
    """
    if _announced(request) > options.max_body_bytes and "expect" in request.headers:
        raise _too_large(options)  # the client asked before sending
    body = bytearray()
    n_bytes = 0
    try:
        async with asyncio.timeout(options.body_timeout_s):
            async for part in request.stream():
                n_bytes += len(part)
                if n_bytes <= options.max_body_bytes:
                    body += part
                else:
                    body.clear()
                if n_bytes > options.max_body_bytes + _MAX_DISCARDED_BYTES:
                    break
    except TimeoutError:
        raise BodyTimeoutError(
            f"The request was not received within {options.body_timeout_s:g} seconds.", hint="Send it faster."
        ) from None
    if n_bytes > options.max_body_bytes:
        raise _too_large(options)
    return bytes(body)


def _announced(request: Request) -> int:
    try:
        return int(request.headers.get("content-length", "0"))
    except ValueError:
        return 0


def _too_large(options: ServerOptions) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"The request body has more than {options.max_body_bytes} bytes.", hint="Shorten the messages."
    )
