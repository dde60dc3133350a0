"""POST /v1/completions, the legacy endpoint: prompts as they are, through the same engine as chat."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from atelico.protocol.read import decode_as
from atelico.protocol.request import check_across_fields
from atelico.protocol.response import (
    AtelicoInfo,
    ChatCompletion,
    ChatCompletionChunk,
    CompletionTokensDetails,
    Logprobs,
    PromptTokensDetails,
    SpeculationInfo,
    Timings,
    Usage,
)
from atelico.server.answers import streamed_answer, whole_answer
from atelico.server.body import read_body
from atelico.server.bridge import cancelled_early
from atelico.server.endpoint import json_response
from atelico.server.sse import send_events
from atelico.server.state import ServerState, Submitted
from atelico.server.wire import Completion, CompletionChoice, CompletionLogprobs, CompletionRequest


async def completions(state: ServerState, request: Request, send: Send) -> Response | None:
    """Continue each prompt; the choices of prompt i are numbered i * n and up."""
    state.refuse_when_stopping()
    body = await read_body(request, state.options)
    asked = await state.off_loop(lambda: decode_as(CompletionRequest, body, max_bytes=state.options.max_body_bytes))
    as_chat = asked.chat_request()
    check_across_fields(as_chat)
    answer = _Answer(asked)
    submitted: list[Submitted] = []
    try:
        for prompt in asked.prompts():
            submitted.append(await state.submit(as_chat, prompt))
    except BaseException:
        for each in submitted:
            each.job.cancel()
        raise
    async with cancelled_early([each.job for each in submitted], request.receive, state.options.request_timeout_s):
        if asked.stream:
            await send_events(send, answer.chunks(state, submitted))
            return None
        completed = [await whole_answer(state, each) for each in submitted]
        return json_response(answer.whole(completed))


class _Answer:
    """The response to one request, from the answers to its prompts."""

    def __init__(self, asked: CompletionRequest) -> None:
        self._asked = asked
        self._id = f"cmpl-{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._offsets: Counter[int] = Counter()  # characters of each choice so far

    def whole(self, completed: Sequence[ChatCompletion]) -> Completion:
        """The whole response."""
        choices: list[CompletionChoice] = []
        for i, completion in enumerate(completed):
            for choice in completion.choices:
                index = self._index(i, choice.index)
                text = self._echo(i) + (choice.message.content or "")
                choices.append(
                    CompletionChoice(
                        index=index,
                        text=text,
                        logprobs=self._logprobs(index, choice.logprobs),
                        finish_reason=choice.finish_reason,
                    )
                )
        infos = [completion.atelico for completion in completed]
        return self._completion(choices, usage=_sum([c.usage for c in completed]), atelico=_joined(infos))

    async def chunks(self, state: ServerState, submitted: Sequence[Submitted]) -> AsyncIterator[list[Completion]]:
        """The response in chunks; prompts that run at the same time interleave."""
        queue: asyncio.Queue[tuple[int, list[ChatCompletionChunk] | None]] = asyncio.Queue()

        async def read(i: int) -> None:
            try:
                async for chunks in streamed_answer(state, submitted[i]):
                    queue.put_nowait((i, chunks))
            finally:
                queue.put_nowait((i, None))

        readers = [asyncio.create_task(read(i)) for i in range(len(submitted))]
        try:
            n_open = len(readers)
            while n_open:
                i, chunks = await queue.get()
                if chunks is None:
                    n_open -= 1
                    await readers[i]  # raises what went wrong in it
                elif texts := [made for chunk in chunks if (made := self._chunk(i, chunk)) is not None]:
                    yield texts
            yield [self._last([each.job.result(0) for each in submitted])]
        finally:
            for reader in readers:
                reader.cancel()

    def _chunk(self, i: int, chunk: ChatCompletionChunk) -> Completion | None:
        if not chunk.choices:
            return None  # the usage comes at the end, for all prompts together
        choice = chunk.choices[0]
        index = self._index(i, choice.index)
        text = choice.delta.content or ""
        if choice.delta.role is not None:
            text = self._echo(i)
        if not text and choice.finish_reason is None:
            return None
        logprobs = self._logprobs(index, choice.logprobs)
        made = CompletionChoice(index=index, text=text, logprobs=logprobs, finish_reason=choice.finish_reason)
        return self._completion([made], usage=chunk.usage)

    def _last(self, completed: Sequence[ChatCompletion]) -> Completion:
        options = self._asked.stream_options
        usage = _sum([c.usage for c in completed]) if options is not None and options.include_usage else None
        return self._completion([], usage=usage, atelico=_joined([c.atelico for c in completed]))

    def _completion(
        self, choices: list[CompletionChoice], *, usage: Usage | None = None, atelico: AtelicoInfo | None = None
    ) -> Completion:
        return Completion(
            id=self._id,
            created=self._created,
            model=self._asked.model,
            choices=choices,
            usage=usage,
            atelico=atelico,
        )

    def _index(self, prompt: int, choice: int) -> int:
        return prompt * (self._asked.n or 1) + choice

    def _echo(self, prompt: int) -> str:
        return self._asked.prompts()[prompt] if self._asked.echo else ""

    def _logprobs(self, index: int, logprobs: Logprobs | None) -> CompletionLogprobs | None:
        """The chat shape turned into parallel lists; offsets go on where the choice's last chunk ended."""
        if logprobs is None:
            return None
        shaped = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
        for token in logprobs.content:
            shaped.tokens.append(token.token)
            shaped.token_logprobs.append(token.logprob)
            shaped.top_logprobs.append({candidate.token: candidate.logprob for candidate in token.top_logprobs})
            shaped.text_offset.append(self._offsets[index])
            self._offsets[index] += len(token.token)
        return shaped


def _sum(usages: Sequence[Usage]) -> Usage:
    return Usage(
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        total_tokens=sum(usage.total_tokens for usage in usages),
        prompt_tokens_details=PromptTokensDetails(
            cached_tokens=sum(usage.prompt_tokens_details.cached_tokens for usage in usages)
        ),
        completion_tokens_details=CompletionTokensDetails(
            reasoning_tokens=sum(usage.completion_tokens_details.reasoning_tokens for usage in usages)
        ),
    )


def _joined(infos: Sequence[AtelicoInfo]) -> AtelicoInfo:
    """One report for all prompts: counts added, times of the slowest."""
    if len(infos) == 1:
        return infos[0]
    speculations = [info.speculation for info in infos]
    proposed, accepted = sum(s.proposed for s in speculations), sum(s.accepted for s in speculations)
    slowest = max((info.timings for info in infos), key=lambda timings: timings.queue_ms + timings.decode_ms)
    return AtelicoInfo(
        speculation=SpeculationInfo(
            proposer=speculations[0].proposer,
            active=any(s.active for s in speculations),
            reason=speculations[0].reason,
            rounds=sum(s.rounds for s in speculations),
            proposed=proposed,
            accepted=accepted,
            acceptance_rate=accepted / proposed if proposed else None,
            sources=dict(sum((Counter(s.sources) for s in speculations), Counter())),
            proposed_sources=dict(sum((Counter(s.proposed_sources) for s in speculations), Counter())),
            acceptance=speculations[0].acceptance,
        ),
        timings=Timings(**slowest.model_dump()),
        cached_tokens=sum(info.cached_tokens for info in infos),
        device=infos[0].device,
        warnings=sorted({warning for info in infos for warning in info.warnings}),
    )
