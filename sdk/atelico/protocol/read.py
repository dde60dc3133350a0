"""From JSON to a request.

Unknown fields are tolerated; a known field with a wrong type or a value out of range is an InvalidRequestError that
names it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from atelico.errors import InvalidJSONError, InvalidRequestError
from atelico.protocol.allowed import allowed_values
from atelico.protocol.request import ChatRequest, check_across_fields

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 16 * 1024 * 1024

T = TypeVar("T")

_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def decode_request(data: bytes | str | Mapping[str, Any], *, max_bytes: int = MAX_REQUEST_BYTES) -> ChatRequest:
    """The validated request in `data`: JSON as bytes or str, or the same as Python objects.

    Raises:
        InvalidJSONError: not JSON, not UTF-8, over `max_bytes` or nested too deeply.
        InvalidRequestError: a field is missing, has a wrong type or a value out of range.
    """
    body = _as_json(data)
    request = decode_as(ChatRequest, body, max_bytes=max_bytes)
    check_across_fields(request)
    if logger.isEnabledFor(logging.DEBUG):
        _log_unknown_fields(body)
    return request


def decode_as(kind: type[T], body: bytes, *, max_bytes: int = MAX_REQUEST_BYTES) -> T:
    """The struct `kind` in a JSON body.

    Raises:
        InvalidJSONError, InvalidRequestError: see decode_request.
    """
    if len(body) > max_bytes:
        raise InvalidJSONError(f"The request has {len(body)} bytes; at most {max_bytes} are accepted.")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        decoded: T = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _validation_error(kind, str(error)) from None
    except msgspec.DecodeError as error:
        raise InvalidJSONError(f"The request is not valid JSON: {error}.") from None
    except UnicodeDecodeError as error:
        raise InvalidJSONError(f"The request is not valid UTF-8: {error.reason} at byte {error.start}.") from None
    except RecursionError:
        raise InvalidJSONError("The request is nested too deeply.") from None
    return decoded


def _as_json(data: bytes | str | Mapping[str, Any]) -> bytes:
    """Python objects take the same way as JSON from outside, so that both meet the same checks."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    try:
        return data.encode() if isinstance(data, str) else msgspec.json.encode(data)
    except UnicodeEncodeError as error:
        raise InvalidJSONError(f"The request has text that is not valid Unicode: {error.reason}.") from None
    except RecursionError:
        raise InvalidJSONError("The request is nested too deeply.") from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(
            f"The request cannot be written as JSON: {error}.", hint="Use dicts, lists, strings, numbers and booleans."
        ) from None


def _validation_error(kind: type[Any], text: str) -> InvalidRequestError:
    """msgspec says "what - at `$.path`"; OpenAI's clients want the path apart."""
    what, _, path = text.partition(" - at `")
    param = path.rstrip("`").removeprefix("$").removeprefix(".") or None
    missing = re.fullmatch(r"Object missing required field `(\w+)`", what)
    if missing:
        param = f"{param}.{missing[1]}" if param else missing[1]
        return InvalidRequestError(f"{param} is missing.", param=param, code="missing_field")
    allowed = allowed_values(kind, param) if param else []
    hint = f"Use one of: {', '.join(allowed)}." if allowed else ""
    return InvalidRequestError(f"{param or 'The request'}: {what}.", param=param, hint=hint)


def _log_unknown_fields(body: bytes) -> None:
    known = {field.name for field in msgspec.structs.fields(ChatRequest)}
    unknown = sorted(set(msgspec.json.decode(body, type=dict[str, msgspec.Raw])) - known)
    if unknown:
        logger.debug("ignored unknown request fields: %s", ", ".join(unknown))
