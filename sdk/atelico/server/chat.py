"""POST /v1/chat/completions."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from atelico.protocol.read import decode_request
from atelico.server.answers import streamed_answer, whole_answer
from atelico.server.body import read_body
from atelico.server.bridge import cancelled_early
from atelico.server.endpoint import json_response
from atelico.server.sse import send_events
from atelico.server.state import ServerState


async def chat_completions(state: ServerState, request: Request, send: Send) -> Response | None:
    """Answer a chat request, streamed or whole."""
    state.refuse_when_stopping()
    body = await read_body(request, state.options)
    asked = await state.off_loop(lambda: decode_request(body, max_bytes=state.options.max_body_bytes))
    submitted = await state.submit(asked)
    async with cancelled_early([submitted.job], request.receive, state.options.request_timeout_s):
        if asked.stream:
            await send_events(send, streamed_answer(state, submitted))
            return None
        return json_response(await whole_answer(state, submitted))
