"""The one exception family. Each error knows its HTTP status, its C result code, what is wrong and what to do.

Nothing here translates errors from elsewhere; the module that knows the cause raises the right class.
"""

from __future__ import annotations

from typing import ClassVar


class AtelicoError(Exception):
    """Base of every error atelico raises on purpose.

    Attributes:
        message: what is wrong, one sentence.
        hint: what to do about it, or "".
        param: the request field that is at fault, as a path such as ``messages[0].role``, or None.
        type, code: as in OpenAI's error body.
        http_status: status a server answers with.
        c_result: the negative result code of the C ABI.
    """

    type: ClassVar[str] = "server_error"
    code: str = "internal_error"
    http_status: ClassVar[int] = 500
    c_result: ClassVar[int] = -99

    def __init__(self, message: str, *, hint: str = "", param: str | None = None, code: str | None = None) -> None:
        self.message = message
        self.hint = hint
        self.param = param
        if code is not None:
            self.code = code
        super().__init__(f"{message} {hint}".rstrip())


class InvalidRequestError(AtelicoError):
    """A field of the request has the wrong type or a value out of range."""

    type = "invalid_request_error"
    code = "invalid_value"
    http_status = 400
    c_result = -2


class InvalidJSONError(InvalidRequestError):
    """The request is not JSON, not UTF-8, too large or too deeply nested."""

    code = "invalid_json"
    c_result = -8


class SchemaError(InvalidRequestError):
    """The JSON schema of ``response_format`` (or of a tool) cannot be enforced."""

    code = "invalid_schema"


class PrefixError(InvalidRequestError):
    """A saved prefix cannot be written or read, is damaged, or belongs to another model or version."""

    code = "invalid_prefix"


class ContextOverflowError(InvalidRequestError):
    """The prompt does not fit the model's context."""

    code = "context_length_exceeded"
    c_result = -9


class ModelNotFoundError(AtelicoError):
    """No model of this name is configured or installed."""

    type = "invalid_request_error"
    code = "model_not_found"
    http_status = 404
    c_result = -4


class ModelLoadError(AtelicoError):
    """The model file exists but cannot be loaded: damaged, of an unknown architecture, or too large for the machine."""

    type = "invalid_request_error"  # deterministic: clients must not retry it
    code = "model_load_failed"
    http_status = 400
    c_result = -3


class ConfigError(AtelicoError):
    """The engine's configuration is wrong or unreadable."""

    type = "invalid_request_error"
    code = "invalid_config"
    http_status = 400
    c_result = -3


class InferenceError(AtelicoError):
    """llama.cpp or the grammar engine failed while a request ran."""

    code = "inference_failed"
    c_result = -5


class MemoryFullError(InferenceError):
    """The model's memory has no cell left for the next token."""

    code = "memory_full"


class CancelledError(AtelicoError):
    """The request was cancelled before it had an answer."""

    type = "invalid_request_error"
    code = "cancelled"
    http_status = 499
    c_result = -10


class BusyError(AtelicoError):
    """The queue is full."""

    type = "rate_limit_error"
    code = "busy"
    http_status = 429
    c_result = -11


class ShuttingDownError(AtelicoError):
    """The engine is closing or closed."""

    code = "shutting_down"
    http_status = 503
    c_result = -12


class InternalError(AtelicoError):
    """A defect of atelico itself."""
