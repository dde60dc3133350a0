"""From finished lanes to the response: choices, usage, what speculation did, timings."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from atelico.decoding.lane import Lane
from atelico.job import FinishEvent, Job, TextEvent
from atelico.protocol.response import (
    AssistantMessage,
    AtelicoInfo,
    ChatCompletion,
    Choice,
    CompletionTokensDetails,
    GovernorInfo,
    Logprobs,
    PromptTokensDetails,
    SpeculationInfo,
    Timings,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)


@dataclass(frozen=True)
class RequestFacts:
    """What is known of a request before it is decoded, for its response."""

    device: str
    load_ms: float = 0.0
    warnings: tuple[str, ...] = ()


def progress_event(lane: Lane, content: str, reasoning: str, calls: list[ToolCallDelta]) -> TextEvent:
    """New text and calls of `lane`, with the log-probabilities of the tokens they cover."""
    options = lane.job.request.stream_options
    usage = None
    if options is not None and options.continuous_usage_stats:
        usage = _usage([lane], n_tokens=lane.n_output)
    return TextEvent(lane.choice, content, reasoning, _unsent_logprobs(lane, lane.n_certain), usage, calls or None)


def finish_event(lane: Lane) -> FinishEvent:
    """The end of `lane`, with the log-probabilities that no text event carried."""
    return FinishEvent(lane.choice, lane.reported_reason, _unsent_logprobs(lane, len(lane.logprobs)))


def _unsent_logprobs(lane: Lane, up_to: int) -> list[TokenLogprob] | None:
    if lane.n_logprobs is None:
        return None
    unsent = lane.logprobs[lane.n_logprobs_sent : up_to]
    lane.n_logprobs_sent = max(lane.n_logprobs_sent, up_to)
    return unsent


def completion(job: Job, lanes: Sequence[Lane], facts: RequestFacts) -> ChatCompletion:
    """The whole response of `job`, whose `lanes` have all finished."""
    return ChatCompletion(
        id=job.id,
        created=job.created,
        model=job.request.model,
        choices=[_choice(lane) for lane in lanes],
        usage=_usage(lanes),
        atelico=AtelicoInfo(
            speculation=_speculation(lanes),
            timings=_timings(job, lanes, facts),
            cached_tokens=lanes[0].n_reused,
            device=facts.device,
            closed_early=any(lane.closing is not None and lane.closing.closed_early for lane in lanes),
            warnings=list(facts.warnings),
        ),
    )


def end_unstarted(job: Job) -> None:
    """Answer a job that was cancelled before any of it was decoded."""
    answer = ChatCompletion(
        id=job.id,
        created=job.created,
        model=job.request.model,
        choices=[
            Choice(index=i, message=AssistantMessage(content=""), finish_reason="cancelled")
            for i in range(job.request.n or 1)
        ],
        usage=Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0),
        atelico=AtelicoInfo(
            speculation=SpeculationInfo(proposer=None, active=False, reason="cancelled before it started"),
            timings=Timings(queue_ms=_ms(job.submitted_at, time.perf_counter())),
            cached_tokens=0,
            device="none",
        ),
    )
    job.end(answer)


def _choice(lane: Lane) -> Choice:
    content, reasoning, calls = "".join(lane.content), "".join(lane.reasoning), lane.tool_calls
    return Choice(
        index=lane.choice,
        message=AssistantMessage(
            content=content if content or not calls else None,
            reasoning_content=reasoning or None,
            tool_calls=calls or None,
        ),
        finish_reason=lane.reported_reason,
        logprobs=Logprobs(content=lane.logprobs) if lane.n_logprobs is not None else None,
    )


def _usage(lanes: Sequence[Lane], n_tokens: int | None = None) -> Usage:
    prompt = lanes[0].n_prompt  # all choices share one prompt
    completion = sum(lane.n_output for lane in lanes) if n_tokens is None else n_tokens
    accepted = sum(lane.stats.accepted_by_source["prediction"] for lane in lanes)
    proposed = sum(lane.stats.proposed_by_source["prediction"] for lane in lanes)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=lanes[0].n_reused),
        completion_tokens_details=CompletionTokensDetails(
            reasoning_tokens=sum(lane.text.n_reasoning_tokens for lane in lanes),
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=proposed - accepted,
        ),
    )


def _speculation(lanes: Sequence[Lane]) -> SpeculationInfo:
    sources: Counter[str] = Counter()
    proposed_sources: Counter[str] = Counter()
    for lane in lanes:
        sources.update(lane.stats.accepted_by_source)
        proposed_sources.update(lane.stats.proposed_by_source)
    proposed = sum(lane.stats.proposed for lane in lanes)
    accepted = sum(lane.stats.accepted for lane in lanes)
    plan = lanes[0].plan
    return SpeculationInfo(
        proposer=plan.proposer,
        active=plan.reason is None,
        reason=plan.reason,
        rounds=sum(lane.stats.rounds for lane in lanes),
        proposed=proposed,
        accepted=accepted,
        acceptance_rate=accepted / proposed if proposed else None,
        near_ties=sum(lane.stats.near_ties for lane in lanes),
        sources=dict(sources),
        proposed_sources=dict(proposed_sources),
        governor=_governor(lanes, proposed),
        acceptance=plan.acceptance if plan.reason is None else None,
    )


def _governor(lanes: Sequence[Lane], proposed: int) -> GovernorInfo | None:
    views = [lane.governor for lane in lanes if lane.governor is not None]
    if not views:
        return None
    rounds = sum(lane.stats.rounds for lane in lanes)
    return GovernorInfo(
        declined=sum(view.declined for view in views),
        mean_draft=round(proposed / rounds, 3) if rounds else 0.0,
        resting=next((view.resting for view in views if view.resting is not None), None),
    )


def _timings(job: Job, lanes: Sequence[Lane], facts: RequestFacts) -> Timings:
    ended = max(lane.clock.ended_at for lane in lanes)
    admitted = min((lane.clock.admitted_at for lane in lanes if lane.clock.admitted_at), default=ended)
    first = min((lane.clock.first_token_at for lane in lanes if lane.clock.first_token_at), default=0.0)
    decode_ms = _ms(first, ended) if first else 0.0
    n_decoded = sum(max(lane.n_output - 1, 0) for lane in lanes)  # the first token belongs to the prompt's pass
    return Timings(
        queue_ms=max(_ms(job.submitted_at, admitted) - facts.load_ms, 0.0),
        load_ms=facts.load_ms,
        prompt_ms=_ms(admitted, first or ended),
        first_token_ms=_ms(job.submitted_at, first) if first else 0.0,
        decode_ms=decode_ms,
        tokens_per_second=n_decoded / decode_ms * 1000 if decode_ms > 0 and n_decoded else None,
    )


def _ms(start: float, end: float) -> float:
    return round((end - start) * 1000, 3)
