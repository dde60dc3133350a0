"""A job's answer as both completion endpoints read it: whole or in chunks, counted once, never empty by a deadline."""

from __future__ import annotations

from collections.abc import AsyncIterator

from atelico.errors import ShuttingDownError
from atelico.protocol.response import ChatCompletion, ChatCompletionChunk
from atelico.server.bridge import chunks_of, completion_of
from atelico.server.errors import DeadlineError
from atelico.server.state import ServerState, Submitted


async def whole_answer(state: ServerState, submitted: Submitted) -> ChatCompletion:
    """The finished answer.

    Raises:
        DeadlineError: cancelled for its time limit before there was any token.
        ShuttingDownError: likewise, by the server's stop.
        AtelicoError: the request failed.
    """
    completion = await completion_of(submitted.job)
    _count(state, submitted, completion)
    if completion.usage.completion_tokens == 0 and completion.choices[0].finish_reason == "cancelled":
        if state.stopping:
            raise ShuttingDownError("The server stopped before the request was answered.", hint="Send it again later.")
        raise DeadlineError(
            f"There was no answer within {state.options.request_timeout_s:g} seconds.",
            hint="Send fewer requests at once, shorten the messages, or raise the server's request timeout.",
        )
    return completion


async def streamed_answer(state: ServerState, submitted: Submitted) -> AsyncIterator[list[ChatCompletionChunk]]:
    """The answer's chunks, as many at once as are ready.

    Raises:
        AtelicoError: the request failed.
    """
    async for chunks in chunks_of(submitted.job):
        yield chunks
    _count(state, submitted, submitted.job.result(0))


def _count(state: ServerState, submitted: Submitted, completion: ChatCompletion) -> None:
    reasons = [choice.finish_reason for choice in completion.choices]
    state.metrics.count_answer(submitted.model, reasons, completion.usage, completion.atelico)
