"""The response, whole and in chunks."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from atelico.protocol.base import Wire
from atelico.protocol.request import Acceptance, ToolCall


class TopLogprob(Wire):
    """One candidate of a position."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(Wire):
    """The chosen token of a position, with the best candidates beside it."""

    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class Logprobs(Wire):
    """Log-probabilities of the model itself: before penalties, bias, grammar, temperature and truncation."""

    content: list[TokenLogprob]
    refusal: None = None


class AssistantMessage(Wire):
    """The answer. `reasoning_content` holds the thoughts of a thinking model."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    reasoning_content: str | None = None
    refusal: None = None
    tool_calls: list[ToolCall] | None = None


FinishReason = Literal["stop", "length", "tool_calls", "cancelled"]


class Choice(Wire):
    """One of the `n` answers."""

    index: int
    message: AssistantMessage
    finish_reason: FinishReason
    logprobs: Logprobs | None = None


class PromptTokensDetails(Wire):
    """`cached_tokens`: prompt tokens that did not have to be read again."""

    cached_tokens: int = 0


class CompletionTokensDetails(Wire):
    """Parts of `completion_tokens`."""

    reasoning_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class Usage(Wire):
    """Token counts; `completion_tokens` counts exactly the returned tokens (an end token is not one of them)."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails = field(default_factory=PromptTokensDetails)
    completion_tokens_details: CompletionTokensDetails = field(default_factory=CompletionTokensDetails)


class GovernorInfo(Wire):
    """How the governor judged the drafts.

    `declined`: rounds in which there was a draft and none of it was verified. `mean_draft`: draft tokens verified per
    drafting round. `resting`: why drafting was given up for this request, or null.
    """

    declined: int
    mean_draft: float
    resting: str | None


class SpeculationInfo(Wire):
    """What speculation did for this request; where it was not active, `reason` says why.

    `governor` is null where it was off, or nothing was drafted. `near_ties`: rows decoded again on their own.
    `acceptance`: the rule for drafts; null where it was not active.
    """

    proposer: str | None
    active: bool
    reason: str | None
    rounds: int = 0
    proposed: int = 0
    accepted: int = 0
    acceptance_rate: float | None = None
    sources: dict[str, int] = field(default_factory=dict)
    proposed_sources: dict[str, int] = field(default_factory=dict)
    near_ties: int = 0
    governor: GovernorInfo | None = None
    acceptance: Acceptance | None = None


class Timings(Wire):
    """Milliseconds of each phase, and the decode speed of this request."""

    queue_ms: float = 0.0
    load_ms: float = 0.0
    prompt_ms: float = 0.0
    first_token_ms: float = 0.0
    decode_ms: float = 0.0
    tokens_per_second: float | None = None


class AtelicoInfo(Wire):
    """Our own part of the response. `sources` of speculation counts accepted draft tokens by where they came from,
    `proposed_sources` all of them. `closed_early`: the document was ended for want of tokens."""

    speculation: SpeculationInfo
    timings: Timings
    cached_tokens: int
    device: str
    closed_early: bool = False
    warnings: list[str] = field(default_factory=list)


class ChatCompletion(Wire):
    """The whole answer."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    atelico: AtelicoInfo
    object: Literal["chat.completion"] = "chat.completion"
    system_fingerprint: str | None = None


class FunctionDelta(Wire, omit_defaults=True):
    """What a chunk adds to a call: its name in the first one, a piece of its arguments in the others."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(Wire, omit_defaults=True):
    """What a chunk adds to the tool call `index`. Clients join the strings, so `id` and `type` come once only."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionDelta | None = None


class Delta(Wire, omit_defaults=True):
    """What a chunk adds to its choice; empty in the last one."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChunkChoice(Wire):
    """One choice inside a chunk."""

    index: int
    delta: Delta
    finish_reason: FinishReason | None = None
    logprobs: Logprobs | None = None


class ChatCompletionChunk(Wire):
    """One event of a streamed answer. The last one carries `atelico`, and `usage` where it was asked for."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    system_fingerprint: str | None = None
    usage: Usage | None = None
    atelico: AtelicoInfo | None = None
