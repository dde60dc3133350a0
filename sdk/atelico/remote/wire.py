"""What other servers answer, read leniently: only the fields we pass on, each of which may be missing."""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from atelico.protocol.response import AtelicoInfo, FinishReason, TokenLogprob, TopLogprob, Usage
from atelico.remote.errors import RemoteUnavailableError

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "cancelled": "cancelled",
}


class Function(Struct):
    """A called function, whole or in pieces."""

    name: str | None = None
    arguments: str | None = None


class Call(Struct):
    """A tool call, whole or in pieces."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Text(Struct):
    """A message or a delta. vLLM has called thoughts by both names."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Call] | None = None

    def thoughts(self) -> str:
        """The reasoning under either name."""
        return self.reasoning_content or self.reasoning or ""


class Choice(Struct):
    """One choice of an answer or a chunk."""

    index: int = 0
    message: Text | None = None
    delta: Text | None = None
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None

    def text(self) -> Text:
        """What it says."""
        return self.message or self.delta or Text()

    def reason(self) -> FinishReason | None:
        """Its end, in our words."""
        return _REASONS.get(self.finish_reason, "stop") if self.finish_reason is not None else None

    def token_logprobs(self) -> list[TokenLogprob] | None:
        """Its log-probabilities, where they have OpenAI's shape."""
        content = (self.logprobs or {}).get("content")
        if not isinstance(content, list):
            return None
        try:
            return [_logprob(token) for token in content]
        except (KeyError, TypeError, ValueError):
            return None


class Answer(Struct):
    """A chat completion, or one chunk of it."""

    choices: list[Choice] = []
    usage: dict[str, Any] | None = None
    atelico: dict[str, Any] | None = None
    error: Any = None

    def counts(self) -> Usage | None:
        """The usage, where it is complete."""
        return _converted(self.usage, Usage)

    def report(self) -> AtelicoInfo | None:
        """Our own report, where the endpoint is an atelico too."""
        return _converted(self.atelico, AtelicoInfo)


T = TypeVar("T")

_decoder = msgspec.json.Decoder(Answer)


def decode_answer(body: bytes | str, alias: str) -> Answer:
    """The answer in `body`.

    Raises:
        RemoteUnavailableError: it is no chat completion.
    """
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteUnavailableError(
            f"remote::{alias} answered with something that is no chat completion: {error}.",
            hint="Check the url in its options; it usually ends in /v1.",
        ) from None


def _converted(value: dict[str, Any] | None, kind: type[T]) -> T | None:
    """`value` as `kind`; None where it is something else. Some servers write null for a count they have not."""
    for candidate in (value, _without_nulls(value)):
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(candidate, kind) if candidate is not None else None
    return None


def _without_nulls(value: Any) -> Any:
    return {k: _without_nulls(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def _logprob(token: dict[str, Any]) -> TokenLogprob:
    return TokenLogprob(
        token=token["token"],
        logprob=float(token["logprob"]),
        bytes=token.get("bytes"),
        top_logprobs=[
            TopLogprob(token=top["token"], logprob=float(top["logprob"]), bytes=top.get("bytes"))
            for top in token.get("top_logprobs") or ()
        ],
    )
