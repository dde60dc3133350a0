"""GET /openapi.json: the endpoints and their shapes, generated from the structs that requests are parsed with."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

import atelico
from atelico.embedding.wire import EmbeddingRequest, EmbeddingResponse
from atelico.protocol.error import ErrorBody
from atelico.protocol.request import ChatRequest
from atelico.protocol.response import ChatCompletion, ChatCompletionChunk
from atelico.server.state import ServerState
from atelico.server.wire import Completion, CompletionRequest, Health, ModelCard, ModelList

Json = dict[str, Any]

_STRUCTS = (
    *(ChatRequest, ChatCompletion, ChatCompletionChunk, CompletionRequest, Completion),
    *(EmbeddingRequest, EmbeddingResponse, ModelCard, ModelList, Health, ErrorBody),
)
_REFUSALS = {
    400: "The request is wrong; `param` names the field.",
    401: "The API key is missing or wrong.",
    403: "A web page or host name that may not call.",
    404: "No such model.",
    408: "The request was not received in time.",
    413: "The request is too large.",
    429: "Too many requests are waiting.",
    500: "The request failed for a defect, or the model could not decode.",
    503: "The server is stopping.",
    504: "There was no answer in time.",
}


async def openapi(state: ServerState, request: Request, send: Send) -> Response:
    """The document."""
    return Response(msgspec.json.encode(document()), media_type="application/json")


@functools.cache
def document() -> Json:
    """OpenAPI 3.1 for this server."""
    _, components = msgspec.json.schema_components(_STRUCTS, ref_template="#/components/schemas/{name}")
    health = _get("Whether the server takes requests", Health)
    health["responses"]["503"] = {"description": "The server is stopping.", **_json(Health)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "atelico",
            "version": atelico.__version__,
            "description": "OpenAI's API for language models on this machine.",
        },
        "paths": {
            "/v1/chat/completions": {"post": _post("Answer a chat", ChatRequest, ChatCompletion, streams=True)},
            "/v1/completions": {"post": _post("Continue a text", CompletionRequest, Completion, streams=True)},
            "/v1/embeddings": {"post": _post("Embed texts", EmbeddingRequest, EmbeddingResponse)},
            "/v1/models": {"get": _get("The models that a request can name", ModelList)},
            "/v1/models/{model}": {"get": _get("One model", ModelCard, path_parameter="model")},
            "/health": {"get": health},
            "/metrics": {"get": _text("Counters for Prometheus")},
            "/openapi.json": {"get": _document()},
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _ref(struct: type) -> Json:
    return {"$ref": f"#/components/schemas/{struct.__name__}"}


def _json(struct: type) -> Json:
    return {"content": {"application/json": {"schema": _ref(struct)}}}


def _refusals() -> Json:
    return {str(status): {"description": text, **_json(ErrorBody)} for status, text in _REFUSALS.items()}


def _post(summary: str, body: type, answer: type, *, streams: bool = False) -> Json:
    responses = _refusals()
    success: Json = {"description": "The answer.", **_json(answer)}
    if streams:
        success["content"]["text/event-stream"] = {"schema": {"description": "Events, each one chunk."}}
    responses["200"] = success
    return {"summary": summary, "requestBody": {"required": True, **_json(body)}, "responses": responses}


def _get(summary: str, answer: type, *, path_parameter: str | None = None) -> Json:
    operation: Json = {
        "summary": summary,
        "responses": {**_refusals(), "200": {"description": "What was asked for.", **_json(answer)}},
    }
    if path_parameter is not None:
        parameter = {"name": path_parameter, "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [parameter]
    return operation


def _text(summary: str) -> Json:
    content = {"text/plain": {"schema": {"type": "string"}}}
    return {"summary": summary, "responses": {**_refusals(), "200": {"description": "Numbers.", "content": content}}}


def _document() -> Json:
    content = {"application/json": {"schema": {"type": "object"}}}
    responses = {**_refusals(), "200": {"description": "OpenAPI 3.1.", "content": content}}
    return {"summary": "This document", "responses": responses}
