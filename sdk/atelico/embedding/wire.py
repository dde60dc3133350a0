"""The wire of embeddings: OpenAI's request and response. Nothing is computed here but a vector's first dimensions."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from atelico.embedding.texts import EmbeddedTexts
from atelico.errors import InvalidRequestError
from atelico.protocol.base import Count, Wire
from atelico.protocol.read import decode_as

MAX_TEXTS = 2048  # OpenAI's limit


class EmbeddingRequest(Struct, kw_only=True):
    """A request for embeddings. `dimensions`: so many of the first ones, scaled to length 1 again."""

    model: Annotated[str, Meta(min_length=1)]
    input: str | Annotated[list[str], Meta(min_length=1, max_length=MAX_TEXTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None
    user: str | None = None


class Embedding(Wire):
    """The vector of one text: numbers, or base64 of little-endian float32."""

    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class EmbeddingUsage(Wire):
    """Tokens of all texts together."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(Wire):
    """The vectors, in the order of the texts."""

    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    object: Literal["list"] = "list"


def request_of(fields: Mapping[str, Any]) -> EmbeddingRequest:
    """Python objects as a request; they meet the same checks as JSON from outside.

    Raises:
        InvalidRequestError: a field is wrong.
    """
    try:
        body = msgspec.json.encode(fields)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(
            f"The request cannot be written as JSON: {error}.", hint="Use a text or a list of texts as input."
        ) from None
    return decode_as(EmbeddingRequest, body)


def response_of(request: EmbeddingRequest, embedded: EmbeddedTexts) -> EmbeddingResponse:
    """The response to `request`.

    Raises:
        InvalidRequestError: more dimensions than the model has.
    """
    vectors = _shortened(embedded.vectors, request.dimensions)
    as_base64 = request.encoding_format == "base64"
    n_tokens = sum(embedded.token_counts)
    return EmbeddingResponse(
        data=[
            Embedding(index=i, embedding=_base64(vector) if as_base64 else vector.tolist())
            for i, vector in enumerate(vectors)
        ],
        model=request.model,
        usage=EmbeddingUsage(prompt_tokens=n_tokens, total_tokens=n_tokens),
    )


def _shortened(vectors: npt.NDArray[np.float32], dimensions: int | None) -> npt.NDArray[np.float32]:
    n_embd = vectors.shape[1]
    if dimensions is None or dimensions == n_embd:
        return vectors
    if dimensions > n_embd:
        raise InvalidRequestError(
            f"dimensions is {dimensions}; the model has {n_embd}.", param="dimensions", hint=f"At most {n_embd}."
        )
    first = vectors[:, :dimensions]
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    return (first / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def _base64(vector: npt.NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
