"""POST /v1/embeddings."""

from __future__ import annotations

from concurrent.futures import CancelledError

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from atelico.embedding.wire import EmbeddingRequest, response_of
from atelico.errors import ShuttingDownError
from atelico.protocol.read import decode_as
from atelico.server.body import read_body
from atelico.server.bridge import cancelled_early, result_of
from atelico.server.endpoint import json_response
from atelico.server.errors import DeadlineError
from atelico.server.state import ServerState


async def embeddings(state: ServerState, request: Request, send: Send) -> Response:
    """Embed the texts of a request.

    Raises:
        DeadlineError: not done within the time limit.
        ShuttingDownError: cut by the server's stop.
        AtelicoError: the request is wrong or failed.
    """
    state.refuse_when_stopping()
    body = await read_body(request, state.options)
    asked = await state.off_loop(lambda: decode_as(EmbeddingRequest, body, max_bytes=state.options.max_body_bytes))
    future, model = await state.embed(asked.model, asked.input)
    try:
        async with cancelled_early([future], request.receive, state.options.request_timeout_s):
            embedded = await result_of(future)
    except CancelledError:
        if state.stopping:
            raise ShuttingDownError(
                "The server stopped before the texts were embedded.", hint="Send them again later."
            ) from None
        raise DeadlineError(
            f"The texts were not embedded within {state.options.request_timeout_s:g} seconds.",
            hint="Send fewer texts at once, or raise the server's request timeout.",
        ) from None
    state.metrics.count_embedded(model, sum(embedded.token_counts))
    return await state.off_loop(lambda: json_response(response_of(asked, embedded)))
