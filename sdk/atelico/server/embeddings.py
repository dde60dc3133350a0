"""POST /v1/embeddings. The runtime generates text only, so every model is refused, each for its reason."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from atelico.errors import InvalidRequestError
from atelico.models.gguf import read_gguf
from atelico.protocol import decode_as
from atelico.server.body import read_body
from atelico.server.state import ServerState
from atelico.server.wire import EmbeddingRequest


class NoEmbeddingsError(InvalidRequestError):
    """This model gives no embeddings here."""

    code = "unsupported_model"


async def embeddings(state: ServerState, request: Request, send: Send) -> Response:
    """Says why the model gives no embeddings.

    Raises:
        NoEmbeddingsError: always, for a model that exists.
        ModelNotFoundError: it does not.
    """
    body = await read_body(request, state.options)
    asked = await state.off_loop(lambda: decode_as(EmbeddingRequest, body, max_bytes=state.options.max_body_bytes))
    info = await state.off_loop(lambda: read_gguf(state.engine.resolve(asked.model).path))
    if info.is_embedding:
        raise NoEmbeddingsError(
            f"{asked.model} is an embedding model; this version of atelico runs only models that generate text.",
            param="model",
            hint="Use another server for embeddings.",
        )
    raise NoEmbeddingsError(
        f"{asked.model} is a chat model and gives no embeddings.", param="model", hint="Use /v1/chat/completions."
    )
