"""What the decode side reports about a running job, and the same as OpenAI's stream chunks. No queue, no threads."""

from __future__ import annotations

from dataclasses import dataclass

from atelico.protocol.request import ChatRequest
from atelico.protocol.response import (
    ChatCompletion,
    ChatCompletionChunk,
    ChunkChoice,
    Delta,
    FinishReason,
    Logprobs,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)


@dataclass(frozen=True)
class TextEvent:
    """New text or tool calls of one choice, with the log-probabilities of the tokens they complete where asked for."""

    choice: int
    content: str
    reasoning: str
    logprobs: list[TokenLogprob] | None = None
    usage: Usage | None = None
    tool_calls: list[ToolCallDelta] | None = None


@dataclass(frozen=True)
class FinishEvent:
    """One choice has ended; log-probabilities of its last tokens may still come with it."""

    choice: int
    finish_reason: FinishReason
    logprobs: list[TokenLogprob] | None = None


class ChunkStream:
    """Turns the events of one job into chunks; lives as long as somebody reads them.

    The first chunk of a choice has its role, the last its finish reason. The last chunk of all has `atelico`, and the
    usage where `stream_options.include_usage` asked for it.

    Attributes:
        request: what the chunks answer.
        ended: whether the last chunk has been given out.
    """

    def __init__(self, job_id: str, created: int, request: ChatRequest) -> None:
        self.ended = False
        self.request = request
        self._id, self._created = job_id, created
        # A finished choice waits for the next event: the last chunk of all must carry `atelico`.
        self._finished: ChatCompletionChunk | None = None
        self._started: set[int] = set()

    def feed(self, event: TextEvent | FinishEvent | ChatCompletion) -> list[ChatCompletionChunk]:
        """The chunks that `event` completes."""
        if isinstance(event, ChatCompletion):
            self.ended = True
            return self._last_chunks(event)
        chunks = [self._finished] if self._finished is not None else []
        self._finished = None
        if event.choice not in self._started:
            self._started.add(event.choice)
            chunks.append(self._chunk(event.choice, Delta(role="assistant", content="")))
        if isinstance(event, TextEvent):
            delta = Delta(
                content=event.content or None,
                reasoning_content=event.reasoning or None,
                tool_calls=event.tool_calls,
            )
            chunks.append(self._chunk(event.choice, delta, logprobs=event.logprobs, usage=event.usage))
        else:
            self._finished = self._chunk(
                event.choice, Delta(), finish_reason=event.finish_reason, logprobs=event.logprobs
            )
        return chunks

    def _last_chunks(self, completion: ChatCompletion) -> list[ChatCompletionChunk]:
        chunks = [self._finished] if self._finished is not None else []
        for choice in completion.choices:
            if choice.index not in self._started:  # cancelled before it had any text
                chunks.append(self._chunk(choice.index, Delta(role="assistant", content="")))
                chunks.append(self._chunk(choice.index, Delta(), finish_reason=choice.finish_reason))
        options = self.request.stream_options
        if options is not None and options.include_usage:
            # Only on request: clients that index choices[0] break on a chunk without choices.
            chunks.append(self._chunk(0, Delta(), usage=completion.usage))
            chunks[-1].choices = []
        chunks[-1].atelico = completion.atelico
        return chunks

    def _chunk(
        self,
        choice: int,
        delta: Delta,
        *,
        finish_reason: FinishReason | None = None,
        logprobs: list[TokenLogprob] | None = None,
        usage: Usage | None = None,
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._id,
            created=self._created,
            model=self.request.model,
            choices=[
                ChunkChoice(
                    index=choice,
                    delta=delta,
                    finish_reason=finish_reason,
                    logprobs=Logprobs(content=logprobs) if logprobs else None,
                )
            ],
            usage=usage,
        )
