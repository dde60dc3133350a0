"""A lane: one choice of one request while it is decoded. Plain data with named counts; round.py moves it on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from atelico._native import Sampler
from atelico.decoding.closing import Closing
from atelico.decoding.sequences import Sequence
from atelico.decoding.text import TextDelta, TextStream
from atelico.grammar.matcher import Matcher
from atelico.job import Job
from atelico.protocol.request import ToolCall
from atelico.protocol.response import FinishReason, TokenLogprob, ToolCallDelta
from atelico.speculation.draft import Drafter, Proposer
from atelico.speculation.governor import RequestGovernor
from atelico.speculation.registry import SpeculationPlan
from atelico.tools.reader import joined


@dataclass
class SpeculationStats:
    """What drafting did for one lane. `proposed_by_source` and `accepted_by_source`: by who guessed the tokens.
    `near_ties`: rows that were decoded again, on their own."""

    rounds: int = 0
    near_ties: int = 0
    proposed: int = 0
    accepted: int = 0
    proposed_by_source: Counter[str] = field(default_factory=Counter)
    accepted_by_source: Counter[str] = field(default_factory=Counter)


@dataclass
class Clock:
    """Moments of one lane, by `time.perf_counter()`; 0 while they have not come."""

    admitted_at: float = 0.0
    first_token_at: float = 0.0
    ended_at: float = 0.0


@dataclass
class Lane:
    """One choice being generated.

    Attributes:
        tokens: prompt and output so far; the last one is not in memory yet.
        n_prompt: how many of them are the prompt.
        n_cached: how many of them are in the sequence's memory.
        max_tokens: output tokens at most, already bounded by the context.
        priority: lower starts first.
        duty: share of the time decoding may take, 0 to 1.
        reuses: whether it may begin with what is in memory from earlier requests.
        alone: whether it runs with no other lane beside it, since passes and cells shared with others move last bits.
        drafter: the network that drafts for it, if one does.
        governed: whether the governor decides how much of a draft is verified.
        guarded: whether near ties are decided by a pass of their own.
        stochastic: whether drafts are accepted by the rule of speculation/acceptance.py, not as what is sampled anyway.
        closing: how its document ends within its tokens, where it is to be one.
        n_logprobs: candidates to report per token; None for no log-probabilities at all.
        trusts_forced: whether what the grammar engine calls forced has always been.
        markers: texts of control tokens that its tool calls are made of.
        call_was_named: whether the request named the function to call, whose end is then reported as "stop".
        sequence: its place in memory, once admitted.
        n_reused: prompt tokens that were in memory already.
        content, reasoning: the text so far, as far as it is certain.
        calls: what is new of its tool calls and not sent yet; all of them are in `text.reader`.
        n_certain: output tokens that this text covers.
        logprobs: one entry per output token, where they were asked for.
    """

    job: Job
    choice: int
    tokens: list[int]
    n_prompt: int
    max_tokens: int
    sampler: Sampler
    text: TextStream
    plan: SpeculationPlan
    proposers: list[Proposer]
    priority: int = 1
    duty: float = 1.0
    governed: bool = False
    reuses: bool = True
    alone: bool = False
    drafter: Drafter | None = None
    guarded: bool = True
    stochastic: bool = False
    matcher: Matcher | None = None
    closing: Closing | None = None
    n_logprobs: int | None = None
    trusts_forced: bool = True
    markers: Mapping[int, bytes] = field(default_factory=dict)
    call_was_named: bool = False
    sequence: Sequence | None = None
    n_cached: int = 0
    n_reused: int = 0
    governor: RequestGovernor | None = None
    finish_reason: FinishReason | None = None
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCallDelta] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    n_certain: int = 0
    n_logprobs_sent: int = 0
    n_taken: int = 0
    stats: SpeculationStats = field(default_factory=SpeculationStats)
    clock: Clock = field(default_factory=Clock)

    @property
    def n_output(self) -> int:
        """Output tokens so far; also the position that keys the random draw of the next one."""
        return len(self.tokens) - self.n_prompt

    @property
    def n_remaining(self) -> int:
        """Output tokens that may still come."""
        return self.max_tokens - self.n_output

    @property
    def n_pending(self) -> int:
        """Known tokens that are not in memory: the rest of the prompt, or the last committed token."""
        return len(self.tokens) - self.n_cached

    @property
    def is_decoding(self) -> bool:
        """Whether only one token is pending: the prompt has been read, and rounds may carry drafts."""
        return self.n_pending == 1

    @property
    def speculates(self) -> bool:
        """Whether rounds may carry drafts."""
        return self.plan.reason is None

    @property
    def n_draftable(self) -> int:
        """Draft tokens per round at most. `k` bounds guesses; forced ones are not, where the governor weighs costs."""
        if not self.speculates:
            return 0
        return self.plan.max_draft if self.governed and self.matcher is not None else self.plan.k

    def finish(self, reason: FinishReason) -> None:
        """Nothing more will be generated."""
        self.finish_reason = reason
        self.clock.ended_at = time.perf_counter()

    def add_text(self, delta: TextDelta) -> None:
        """Append text that has become certain."""
        self.content.append(delta.content)
        self.reasoning.append(delta.reasoning)
        self.calls += delta.calls
        self.n_certain = delta.n_tokens

    def complete_text(self) -> None:
        """Release held text and drop the tokens that add nothing to it: those inside a stop string."""
        self.add_text(self.text.finish())
        del self.tokens[self.n_prompt + self.text.n_tokens :]
        del self.logprobs[self.text.n_tokens :]
        self.n_cached = min(self.n_cached, len(self.tokens))

    def take_text(self) -> tuple[str, str]:
        """Answer text and thoughts that were added since the last call."""
        first, self.n_taken = self.n_taken, len(self.content)
        return "".join(self.content[first:]), "".join(self.reasoning[first:])

    def take_calls(self) -> list[ToolCallDelta]:
        """What is new of the tool calls since the last time."""
        calls, self.calls = self.calls, []
        return joined(calls)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls it has made."""
        return self.text.reader.calls if self.text.reader is not None else []

    @property
    def reported_reason(self) -> FinishReason:
        """Why it ended, as OpenAI says it: a finished call is "tool_calls", but "stop" where it was named."""
        assert self.finish_reason is not None
        called = self.finish_reason == "stop" and bool(self.tool_calls) and not self.call_was_named
        return "tool_calls" if called else self.finish_reason

    def close_drafter(self) -> None:
        """Give the drafter's memory back. Safe to call twice."""
        drafter, self.drafter = self.drafter, None
        if drafter is not None:
            drafter.close()
