"""Server-sent events: the framing of a stream, and the ASGI messages that carry it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from starlette.types import Send

from atelico.errors import AtelicoError
from atelico.protocol.base import Wire, encode
from atelico.protocol.error import error_body
from atelico.server.errors import as_atelico_error

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a proxy in front must not hold events back
]
_DONE = b"data: [DONE]\n\n"


def event(message: Wire) -> bytes:
    """One event."""
    return b"data: " + encode(message) + b"\n\n"


async def send_events(send: Send, batches: AsyncIterator[Iterable[Wire]]) -> None:
    """Answer with the events of `batches`, one write per batch.

    Nothing is sent before the first batch is there, so an error until then is raised to the caller, who can still
    answer with its status. A later one becomes the last event, without [DONE] after it.
    """
    first = await anext(batches, None)
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    last = _DONE
    try:
        if first is not None:
            await _send_batch(send, first)
            async for batch in batches:
                await _send_batch(send, batch)
    except Exception as error:
        last = event(error_body(_told(error)))
    await send({"type": "http.response.body", "body": last, "more_body": False})


async def _send_batch(send: Send, batch: Iterable[Wire]) -> None:
    await send({"type": "http.response.body", "body": b"".join(map(event, batch)), "more_body": True})


def _told(error: Exception) -> AtelicoError:
    return as_atelico_error(error)
