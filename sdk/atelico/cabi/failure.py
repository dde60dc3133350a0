"""An error as the last event of a job: OpenAI's error body, with the result code beside it."""

from __future__ import annotations

from atelico.errors import AtelicoError
from atelico.protocol.base import Wire, encode
from atelico.protocol.error import ErrorDetail, error_body


class FailureResult(Wire):
    """`result`: the code of atelico.h that the blocking call would return."""

    result: int


class FailureEvent(Wire):
    """`{"error": {...}, "atelico": {"result": -4}}`."""

    error: ErrorDetail
    atelico: FailureResult


def failure_event(error: AtelicoError) -> bytes:
    """The JSON text of the event."""
    return encode(FailureEvent(error=error_body(error).error, atelico=FailureResult(result=error.c_result)))
