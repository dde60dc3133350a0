"""What can go wrong with a remote endpoint, and which of it is worth another attempt or a fallback."""

from __future__ import annotations

import json
from typing import Any

from atelico.errors import AtelicoError, BusyError, InvalidRequestError


class RemoteUnavailableError(AtelicoError):
    """The endpoint cannot be reached, or answers with an error of its own."""

    code = "remote_unavailable"
    http_status = 502
    c_result = -5


class RemoteTimeoutError(RemoteUnavailableError):
    """The endpoint gave no answer in time."""

    code = "remote_timeout"
    http_status = 504


class RemoteRefusedError(InvalidRequestError):
    """The endpoint refuses the request; the message is its own."""

    code = "remote_refused"


class RemoteAccessError(AtelicoError):
    """The endpoint does not accept our key."""

    code = "remote_access_denied"
    http_status = 502
    c_result = -5


# Nothing is wrong with the request itself: try again, and then answer locally where that is configured.
TRANSIENT = (RemoteUnavailableError, BusyError)


def refusal(alias: str, status: int, body: bytes) -> AtelicoError:
    """An error for an answer of the endpoint `alias` that is not 200."""
    detail = _detail(body)
    said = str(detail.get("message") or body[:200].decode(errors="replace") or "nothing").rstrip(".")
    if status in (401, 403):
        return RemoteAccessError(
            f"remote::{alias} refuses our API key (status {status}): {said}.", hint="Check api_key_env in its options."
        )
    if status == 429:
        return BusyError(f"remote::{alias} takes no more requests: {said}.", hint="Send it again later.")
    if status in (408, 409) or status >= 500:
        return RemoteUnavailableError(f"remote::{alias} failed (status {status}): {said}.")
    param = detail.get("param")
    return RemoteRefusedError(
        f"remote::{alias} refuses the request (status {status}): {said}.",
        param=param if isinstance(param, str) else None,
        hint="Check the model's name there." if status == 404 else "",
    )


def _detail(body: bytes) -> dict[str, Any]:
    """OpenAI's error object, or {}."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {"message": error}
