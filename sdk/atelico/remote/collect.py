"""Collector: chunks of another server in, events of our job out, and the whole answer at the end."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field

from atelico.job import FinishEvent, Job, TextEvent
from atelico.protocol.request import FunctionCall, ToolCall
from atelico.protocol.response import (
    AssistantMessage,
    AtelicoInfo,
    ChatCompletion,
    Choice,
    FinishReason,
    FunctionDelta,
    Logprobs,
    SpeculationInfo,
    Timings,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from atelico.remote.wire import Answer, Call


@dataclass
class _Choice:
    """One choice so far."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    finish_reason: FinishReason | None = None


class Collector:
    """The answer to one job while it arrives.

    Attributes:
        n_events: events given to the job so far; after the first there is no second attempt.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.n_events = 0
        self._choices: defaultdict[int, _Choice] = defaultdict(_Choice)
        self._usage: Usage | None = None
        self._report: AtelicoInfo | None = None
        self._first_at = 0.0

    def take(self, answer: Answer) -> None:
        """Pass on what `answer` adds."""
        self._usage = answer.counts() or self._usage
        self._report = answer.report() or self._report
        for part in answer.choices:
            choice, text = self._choices[part.index], part.text()
            calls = [self._call(choice, i, call) for i, call in enumerate(text.tool_calls or ())]
            logprobs = part.token_logprobs()
            choice.logprobs += logprobs or []
            if text.content or text.thoughts() or calls:
                self._first_at = self._first_at or time.perf_counter()
                choice.content.append(text.content or "")
                choice.reasoning.append(text.thoughts())
                self._push(
                    TextEvent(part.index, text.content or "", text.thoughts(), logprobs, tool_calls=calls or None)
                )
            if (reason := part.reason()) is not None and choice.finish_reason is None:
                choice.finish_reason = reason
                self._push(FinishEvent(part.index, reason))

    def whole(self) -> ChatCompletion:
        """The finished answer. A choice that was never finished counts as cut by its length."""
        return self._completion("length")

    def cancelled(self) -> ChatCompletion:
        """The answer so far."""
        return self._completion("cancelled")

    def _push(self, event: TextEvent | FinishEvent) -> None:
        self.n_events += 1
        self.job.push(event)

    def _call(self, choice: _Choice, position: int, call: Call) -> ToolCallDelta:
        index = call.index if call.index is not None else position
        function = call.function
        name = function.name if function is not None else None
        arguments = (function.arguments if function is not None else None) or ""
        is_new = index >= len(choice.calls)
        if is_new:
            index = len(choice.calls)
            choice.calls.append(
                ToolCall(id=call.id or f"call_{index}", function=FunctionCall(name=name or "", arguments=""))
            )
        known = choice.calls[index]
        known.function.arguments += arguments
        return ToolCallDelta(
            index=index,
            id=known.id if is_new else None,
            type="function" if is_new else None,
            function=FunctionDelta(name=known.function.name if is_new else None, arguments=arguments),
        )

    def _completion(self, unfinished: FinishReason) -> ChatCompletion:
        job = self.job
        n_choices = max(job.request.n or 1, len(self._choices))
        for index in range(n_choices):
            choice = self._choices[index]
            if choice.finish_reason is None:
                choice.finish_reason = unfinished
                if self.n_events:
                    self._push(FinishEvent(index, unfinished))
        return ChatCompletion(
            id=job.id,
            created=job.created,
            model=job.request.model,
            choices=[self._whole_choice(index) for index in sorted(self._choices)],
            usage=self._usage or Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0),
            atelico=self._report or self._own_report(),
        )

    def _whole_choice(self, index: int) -> Choice:
        choice = self._choices[index]
        assert choice.finish_reason is not None
        content = "".join(choice.content)
        return Choice(
            index=index,
            message=AssistantMessage(
                content=content if content or not choice.calls else None,
                reasoning_content="".join(choice.reasoning) or None,
                tool_calls=choice.calls or None,
            ),
            finish_reason=choice.finish_reason,
            logprobs=Logprobs(content=choice.logprobs) if self.job.request.logprobs else None,
        )

    def _own_report(self) -> AtelicoInfo:
        """What can be measured from here: the network and the endpoint's queue count as its first token's time."""
        now = time.perf_counter()
        first_ms = (self._first_at - self.job.submitted_at) * 1000 if self._first_at else 0.0
        decode_ms = (now - self._first_at) * 1000 if self._first_at else 0.0
        n_output = self._usage.completion_tokens if self._usage is not None else 0
        return AtelicoInfo(
            speculation=SpeculationInfo(proposer=None, active=False, reason="the answer comes from a remote endpoint"),
            timings=Timings(
                first_token_ms=round(first_ms, 3),
                decode_ms=round(decode_ms, 3),
                tokens_per_second=(n_output - 1) / decode_ms * 1000 if n_output > 1 and decode_ms > 1.0 else None,
            ),
            cached_tokens=self._usage.prompt_tokens_details.cached_tokens if self._usage is not None else 0,
            device="remote",
            warnings=list(self.job.warnings),
        )
