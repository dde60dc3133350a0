"""The error body."""

from __future__ import annotations

from atelico.errors import AtelicoError
from atelico.protocol.base import Wire


class ErrorDetail(Wire):
    """OpenAI's error fields."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Wire):
    """The body of every failed request."""

    error: ErrorDetail


def error_body(error: AtelicoError) -> ErrorBody:
    """The wire form of `error`."""
    return ErrorBody(error=ErrorDetail(message=str(error), type=error.type, param=error.param, code=error.code))
