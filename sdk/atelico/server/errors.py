"""Errors that only a server has, and every error as an HTTP response with OpenAI's body."""

from __future__ import annotations

import logging
from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from atelico.errors import AtelicoError, BusyError, ConfigError, InternalError, InvalidRequestError, ShuttingDownError
from atelico.protocol.base import encode
from atelico.protocol.error import error_body

logger = logging.getLogger(__name__)


class NoRouteError(InvalidRequestError):
    """Nothing is served at this path."""

    code = "unknown_url"
    http_status = 404


class MethodError(InvalidRequestError):
    """The path is served, but not for this method."""

    code = "method_not_allowed"
    http_status = 405


class BodyTimeoutError(InvalidRequestError):
    """The client took too long to send its request."""

    code = "request_timeout"
    http_status = 408


class BodyTooLargeError(InvalidRequestError):
    """The request body is over the limit."""

    code = "request_too_large"
    http_status = 413


class MissingKeyError(InvalidRequestError):
    """No API key, or a wrong one."""

    code = "invalid_api_key"
    http_status = 401


class ForbiddenOriginError(InvalidRequestError):
    """A web page that may not call, or a host name that is not this server's."""

    code = "forbidden_origin"
    http_status = 403


class DeadlineError(AtelicoError):
    """There was no token of an answer within the server's time limit."""

    type: ClassVar[str] = "timeout_error"
    code = "deadline_exceeded"
    http_status = 504


class StartError(ConfigError):
    """The server cannot start with these options on this machine."""

    code = "cannot_start"


# After these the same request may succeed; any other 5xx would only fail again.
_WORTH_RETRYING = (BusyError, ShuttingDownError)
# The rest of the body has not been read, so the connection cannot carry another request.
_CLOSE_AFTER = (BodyTimeoutError, BodyTooLargeError)


def error_response(error: AtelicoError) -> Response:
    """`error` for a client."""
    headers: dict[str, str] = {}
    if isinstance(error, _WORTH_RETRYING):
        headers["retry-after"] = "1"
    elif error.http_status >= 500:
        headers["x-should-retry"] = "false"  # the openai package repeats every 5xx otherwise
    if isinstance(error, _CLOSE_AFTER):
        headers["connection"] = "close"
    if isinstance(error, MissingKeyError):
        headers["www-authenticate"] = "Bearer"
    return Response(encode(error_body(error)), error.http_status, headers, media_type="application/json")


def as_atelico_error(error: Exception) -> AtelicoError:
    """What a client is told of `error`; a defect of ours goes to the log and is told without its details."""
    if isinstance(error, AtelicoError):
        return error
    logger.error("a defect failed a request", exc_info=error)
    return InternalError("The request failed for a defect of atelico; see the server's log.")


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no route, wrong method) in OpenAI's shape."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        response = error_response(
            MethodError(f"{request.method} is not possible at {path}.", hint=f"Use {allowed}." if allowed else "")
        )
        response.headers["allow"] = allowed
        return response
    if error.status_code == 404:
        return error_response(NoRouteError(f"Nothing is served at {path}.", hint="See /openapi.json for what is."))
    refusal = InvalidRequestError(str(error.detail))
    response = error_response(refusal)
    response.status_code = error.status_code
    return response
