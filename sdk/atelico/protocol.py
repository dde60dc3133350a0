"""The wire: request, response, chunk and error, and the only code that parses or writes JSON for them.

The shapes are OpenAI's chat completions plus `speculative` in the request and `atelico` in the response.
Unknown fields are tolerated; a known field with a wrong type or a value out of range is an InvalidRequestError
that names the field. Every optional field may be an explicit null.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from atelico.allowed import allowed_values
from atelico.errors import AtelicoError, InvalidJSONError, InvalidRequestError

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 16 * 1024 * 1024

Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# The counts a context can hold; larger numbers are mistakes.
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Wire(Struct, kw_only=True):
    """Base of the objects users receive: the serialisation methods that users of the openai package know."""

    def model_dump(self) -> dict[str, Any]:
        """This object as plain dicts, lists and scalars."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def model_dump_json(self) -> str:
        """This object as a JSON text."""
        return encode(self).decode()

    to_dict = model_dump
    to_json = model_dump_json


# --- request ------------------------------------------------------------------------------------------------------


class ContentPart(Struct):
    """One part of a message's content; only text parts exist here."""

    type: str
    text: str | None = None

    def __post_init__(self) -> None:
        if self.type != "text" or self.text is None:
            raise ValueError(f"content part of type {self.type!r}: only {{'type': 'text', 'text': ...}} is supported")


class FunctionCall(Wire):
    """A function the assistant called; `arguments` is JSON in a string."""

    name: str
    arguments: str


class ToolCall(Wire):
    """One call inside an assistant message."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


class Message(Struct):
    """One message of the dialogue."""

    role: Literal["developer", "system", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None

    def text(self) -> str:
        """The content as one string; parts are joined without a separator."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


# How a draft token becomes one of the answer. "exact": it is what the sampler takes anyway, so the text is the one of
# plain decoding. "stochastic": by speculative sampling, so the distribution of texts is.
Acceptance = Literal["exact", "stochastic"]


class Speculative(Struct):
    """How to speculate. `k`: at most so many draft tokens per round; None takes the proposer's default."""

    proposer: str | None = "auto"
    k: Count | None = None
    acceptance: Acceptance | None = None


class Prediction(Struct):
    """Text that the answer is expected to contain, in whole or in parts: it is drafted from, never copied."""

    type: Literal["content"]
    content: str | list[ContentPart]

    def text(self) -> str:
        """The content as one string; parts are joined without a separator."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content)


class JsonSchema(Struct):
    """A named JSON schema. `strict` true refuses what cannot be enforced; otherwise it is weakened with a warning."""

    name: str
    schema: dict[str, Any] | bool | None = None
    description: str | None = None
    strict: bool | Literal["true", "false"] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", self.name):
            raise ValueError("name must be 1 to 64 letters, digits, '_' or '-'")


class TextFormat(Struct, tag="text"):
    """Free text."""


class JsonObjectFormat(Struct, tag="json_object"):
    """Any JSON object, or one that follows `schema` where that is given."""

    schema: dict[str, Any] | None = None


class JsonSchemaFormat(Struct, tag="json_schema"):
    """JSON that follows a schema."""

    json_schema: JsonSchema


Priority = Literal["high", "normal", "low"]


class RequestOptions(Struct):
    """Our own options of a request, its `atelico` field.

    `priority`: who starts first among those that wait, and whose prompt is read first. `governor` "off": verify as many
    draft tokens as `k` says, whether they pay or not. `max_cpu`: share of the time that decoding may take, the rest is
    slept. `frame_budget_ms`: the same, said as milliseconds out of each frame of a 60 Hz loop. `memory` "off": neither
    draft from earlier requests' answers nor leave this one's for later ones. `near_tie` "off": let rows of a batch
    decide near ties, too. `json_bounds` "off": let strings, arrays and depth grow as far as the schema lets them.
    `reproducible` "on": wait for the other requests and let none start meanwhile, nor begin with what is in memory, so
    that the text depends on nothing but the request.
    """

    priority: Priority | None = None
    governor: Literal["on", "off"] | None = None
    max_cpu: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    frame_budget_ms: Annotated[float, Meta(gt=0.0, le=1000 / 60)] | None = None
    memory: Literal["on", "off"] | None = None
    near_tie: Literal["on", "off"] | None = None
    json_bounds: Literal["on", "off"] | None = None
    reproducible: Literal["on", "off"] | None = None

    def duty(self) -> float:
        """The share of the time that decoding may take, 0 to 1."""
        frame = self.frame_budget_ms * 60 / 1000 if self.frame_budget_ms is not None else 1.0
        return min(self.max_cpu if self.max_cpu is not None else 1.0, frame)


ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat


class StreamOptions(Struct):
    """`include_usage`: one more chunk with the usage; `continuous_usage_stats`: the usage so far in every chunk."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class FunctionDefinition(Struct):
    """A function the model may call. `parameters`: JSON schema of its arguments; none where it takes none."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Struct):
    """One tool; functions are the only kind."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(Struct):
    """A function by its name."""

    name: str


class NamedTool(Struct):
    """A tool by its name."""

    type: Literal["function"]
    function: FunctionName


class NamedToolChoice(Struct, tag="function"):
    """The answer must be a call of this function."""

    function: FunctionName


class AllowedTools(Struct):
    """The tools that may be called now; the others stay in the prompt, which so stays in memory."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Meta(min_length=1)]


class AllowedToolsChoice(Struct, tag="allowed_tools"):
    """Some of the tools."""

    allowed_tools: AllowedTools


ToolChoice = Literal["none", "auto", "required"] | NamedToolChoice | AllowedToolsChoice


class ChatRequest(Struct, kw_only=True):
    """One chat completion request, validated. See docs/requests.md for the meaning and default of each field."""

    model: Annotated[str, Meta(min_length=1)]
    messages: Annotated[list[Message], Meta(min_length=1)]
    speculative: Speculative | None = None
    prediction: Prediction | None = None
    response_format: ResponseFormat | None = None
    atelico: RequestOptions | None = None
    cache_prompt: bool | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Probability | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Probability | None = None
    seed: Int64 | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=10.0)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100.0, le=100.0)]] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    tools: Annotated[list[Tool], Meta(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None

    def stop_strings(self) -> list[str]:
        """The stop strings as a list, possibly empty."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    def token_limit(self) -> int | None:
        """`max_completion_tokens`, else its older name `max_tokens`, else None."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    def token_biases(self) -> dict[int, float]:
        """`logit_bias` by token id."""
        return {int(token): bias for token, bias in (self.logit_bias or {}).items()}


_MAX_STOP_STRINGS = 16


def check_across_fields(request: ChatRequest) -> None:
    """The rules that one field's type cannot express.

    Raises:
        InvalidRequestError: one of them is broken.
    """

    def fail(param: str, message: str, hint: str = "") -> None:
        raise InvalidRequestError(message, param=param, hint=hint)

    stops = request.stop_strings()
    if len(stops) > _MAX_STOP_STRINGS:
        fail("stop", f"stop has {len(stops)} strings; at most {_MAX_STOP_STRINGS} are allowed.")
    if "" in stops:
        fail("stop", "stop contains an empty string, which would end every answer at once.", "Remove it.")
    if request.top_logprobs and not request.logprobs:
        fail("top_logprobs", "top_logprobs needs logprobs.", "Set logprobs to true.")
    for token in request.logit_bias or ():
        if not re.fullmatch(r"[0-9]{1,10}", token):
            fail("logit_bias", f"logit_bias has the key {token[:40]!r}; keys are token ids written as strings.")
    _check_tools(request, fail)
    for i, message in enumerate(request.messages):
        if message.content is None and message.role != "assistant":
            fail(f"messages[{i}].content", f"messages[{i}].content is missing; only assistant messages may omit it.")


def _check_tools(request: ChatRequest, fail: Callable[[str, str, str], None]) -> None:
    names = [tool.function.name for tool in request.tools or ()]
    for i, name in enumerate(names):
        if name in names[:i]:
            fail(f"tools[{i}].function.name", f"Two tools have the name {name!r}.", "Give each its own.")
    choice = request.tool_choice
    chosen: list[str] = []
    if isinstance(choice, NamedToolChoice):
        chosen = [choice.function.name]
    elif isinstance(choice, AllowedToolsChoice):
        chosen = [tool.function.name for tool in choice.allowed_tools.tools]
    for name in chosen:
        if name not in names:
            fail("tool_choice", f"tool_choice names the function {name!r}, which is not among tools.", "")
    if choice == "required" and not names:
        fail("tool_choice", "tool_choice is 'required', but there are no tools.", "Send tools.")


T = TypeVar("T")

_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_encoder = msgspec.json.Encoder()


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
    allowed = allowed_values(kind, param) if param and re.match(r"Invalid (enum )?value", what) else []
    hint = f"Use one of: {', '.join(allowed)}." if allowed else ""
    return InvalidRequestError(f"{param or 'The request'}: {what}.", param=param, hint=hint)


def _log_unknown_fields(body: bytes) -> None:
    known = {field.name for field in msgspec.structs.fields(ChatRequest)}
    unknown = sorted(set(msgspec.json.decode(body, type=dict[str, msgspec.Raw])) - known)
    if unknown:
        logger.debug("ignored unknown request fields: %s", ", ".join(unknown))


# --- response -----------------------------------------------------------------------------------------------------


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
    prompt_tokens_details: PromptTokensDetails = msgspec.field(default_factory=PromptTokensDetails)
    completion_tokens_details: CompletionTokensDetails = msgspec.field(default_factory=CompletionTokensDetails)


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
    sources: dict[str, int] = msgspec.field(default_factory=dict)
    proposed_sources: dict[str, int] = msgspec.field(default_factory=dict)
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
    warnings: list[str] = msgspec.field(default_factory=list)


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


# --- error --------------------------------------------------------------------------------------------------------


class ErrorDetail(Wire):
    """OpenAI's error fields."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Wire):
    """The body of every failed request."""

    error: ErrorDetail


def error_body(error: AtelicoError) -> ErrorBody:
    """The wire form of `error`."""
    return ErrorBody(error=ErrorDetail(message=str(error), type=error.type, param=error.param, code=error.code))


def encode(message: Wire) -> bytes:
    """`message` as JSON bytes."""
    return _encoder.encode(message)
