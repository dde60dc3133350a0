"""The request. Every optional field may be an explicit null."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from atelico.errors import InvalidRequestError
from atelico.protocol.base import Count, Int64, Penalty, Probability, Wire


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


class GenerationFields(Struct, kw_only=True):
    """What every request for text may say, whatever its prompt is."""

    model: Annotated[str, Meta(min_length=1)]
    speculative: Speculative | None = None
    response_format: ResponseFormat | None = None
    atelico: RequestOptions | None = None
    cache_prompt: bool | None = None
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
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    user: str | None = None


class ChatRequest(GenerationFields, kw_only=True):
    """One chat completion request, validated. See docs/requests.md for the meaning and default of each field."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    prediction: Prediction | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: Annotated[list[Tool], Meta(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
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
