"""Chat template -> prompt text: the model's own Jinja template, or a fallback by architecture.

The sandbox that templates run in is in sandbox.py; tokenising the prompt is the runtime's work.

Fallbacks, where the file has no template or one that cannot be compiled (`ChatTemplate.source` says which):
- fallback:gemma   architectures gemma, gemma2, gemma3, gemma3n: turns of "user" and "model"; system text goes into
                   the first user turn, as in Gemma's own template;
- fallback:llama3  llama with the tokenizer of Llama 3: header format;
- fallback:chatml  every other: ChatML.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Template

from atelico.errors import InvalidRequestError
from atelico.models.gguf import GgufInfo
from atelico.models.sandbox import MAX_TEMPLATE_CHARS, TemplateRefusal, TemplateSandbox
from atelico.protocol.request import Message

logger = logging.getLogger(__name__)

_GEMMA: Final = """\
{% for message in messages %}
{% if message.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{{ '<start_of_turn>' ~ ('model' if message.role == 'assistant' else 'user') ~ '\n' ~ (message.content | trim) -}}
{{ '<end_of_turn>\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}
"""

_LLAMA3: Final = """\
{% for message in messages %}
{% set role = 'ipython' if message.role == 'tool' else message.role %}
{{ '<|start_header_id|>' ~ role ~ '<|end_header_id|>\n\n' ~ (message.content | trim) ~ '<|eot_id|>' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
"""

_CHATML: Final = """\
{% for message in messages %}
{{ '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""


@dataclass(frozen=True, slots=True)
class _Fallback:
    name: str
    template: str
    turn_end: str


_FALLBACK_GEMMA: Final = _Fallback("gemma", _GEMMA, "<end_of_turn>")
_FALLBACK_LLAMA3: Final = _Fallback("llama3", _LLAMA3, "<|eot_id|>")
_FALLBACK_CHATML: Final = _Fallback("chatml", _CHATML, "<|im_end|>")
_GEMMA_ARCHITECTURES: Final = frozenset({"gemma", "gemma2", "gemma3", "gemma3n"})

# What a template sees besides the messages; chat_template_kwargs must not replace them.
_RESERVED: Final = frozenset({"messages", "add_generation_prompt", "bos_token", "eos_token", "tools", "documents"})


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the prompt. Text of the user must be tokenised without control tokens."""

    text: str
    is_user_text: bool


class ChatTemplate:
    """A compiled chat template; lives as long as its model. Rendering is safe from several threads.

    Attributes:
        source: "model", or the fallback in use, such as "fallback:gemma".
        text: the template's Jinja text.
        turn_end: the text that ends a turn in a fallback's format, else None. In a base model's vocabulary it need
            not be an end token, so generation should stop at this text as well.
        adds_bos: whether the prompt already begins with the BOS text, so that the tokenizer must not add a second.
    """

    def __init__(
        self, text: str, source: str, *, turn_end: str | None = None, bos_token: str = "", eos_token: str = ""
    ) -> None:
        """Raises whatever jinja2 and Python raise for a template that cannot be compiled or renders nothing at all."""
        if len(text) > MAX_TEMPLATE_CHARS:
            raise ValueError(f"the template has {len(text)} characters; at most {MAX_TEMPLATE_CHARS} are accepted")
        self.text, self.source, self.turn_end = text, source, turn_end
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._sandbox = TemplateSandbox()
        self._template: Template = self._sandbox.from_string(text)
        self._lock = threading.Lock()
        self._no_tools: list[Any] | None = None  # most templates ask `is not none` ...
        try:
            self.adds_bos = self._begins_with(bos_token)
        except TypeError:
            self._no_tools = []  # ... and some go through the tools without asking
            self.adds_bos = self._begins_with(bos_token)

    @staticmethod
    def for_model(info: GgufInfo, *, bos_token: str = "", eos_token: str = "") -> ChatTemplate:
        """The template of the model that `info` describes.

        Args:
            info: what the model file says.
            bos_token, eos_token: the texts of these tokens, "" where there are none; templates print them.
        """
        text = info.chat_template or info.named_templates.get("default")
        if text:
            try:
                return ChatTemplate(text, "model", bos_token=bos_token, eos_token=eos_token)
            except Exception as error:  # jinja2 and Python's own compiler refuse bad templates in many ways
                logger.warning("%s: its chat template cannot be used (%s)", info.path, _reason(error))
        fallback = _fallback(info)
        logger.info("%s: using the chat format %r", info.path, fallback.name)
        return ChatTemplate(
            fallback.template,
            f"fallback:{fallback.name}",
            turn_end=fallback.turn_end,
            bos_token=bos_token,
            eos_token=eos_token,
        )

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt for `messages`.

        Where the template refuses them as they are, they are reshaped as little as needed: empty answers are left
        out and neighbours of the same role joined by an empty line; then system text moves into the first user
        message, which is made where the assistant begins.

        Args:
            messages: the dialogue, at least one message.
            add_generation_prompt: end with the beginning of the assistant's turn.
            template_kwargs: further variables for the template, such as ``enable_thinking``.

        Raises:
            InvalidRequestError: the template refuses the messages, with its own words; or a variable is reserved.
        """
        _, text, _ = self._render(messages, add_generation_prompt, template_kwargs)
        return text

    def render_segments(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        template_kwargs: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[Segment]:
        """The same prompt as `render`, cut so that the messages' texts stand apart from the template's.

        A user may write the text of a control token, such as "<|im_end|>"; only the template's own segments may be
        tokenised with control tokens. Where a template rewrites a text (beyond trimming space) that text cannot be
        told apart and belongs to a template segment; then the assistant's texts are given up first.

        Args:
            tools: shown to the model by templates that know the variable.
        """
        dialogue, plain, variables = self._render(messages, add_generation_prompt, template_kwargs, tools)
        for marked in (dialogue, [message for message in dialogue if message["role"] != "assistant"]):
            segments = self._segments(dialogue, {id(message) for message in marked}, plain, variables)
            if segments is not None:
                return segments
        logger.debug("the chat template rewrites message texts; the prompt is one segment")
        return [Segment(plain, is_user_text=False)]

    def _render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        template_kwargs: Mapping[str, Any] | None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> tuple[list[dict[str, Any]], str, dict[str, Any]]:
        """(the dialogue as the template accepts it, the prompt, the template's other variables)."""
        if not messages:
            raise InvalidRequestError("messages is empty.", param="messages", hint="Send at least one message.")
        variables = self._variables(add_generation_prompt, template_kwargs)
        if tools:
            variables["tools"] = list(tools)
        keeps_developer = "developer" in self.text
        dialogue = [_plain_message(message, keeps_developer) for message in messages]
        refusal: Exception | None = None
        silent: tuple[list[dict[str, Any]], str] | None = None
        for candidate in filter(None, (dialogue, _joined(dialogue), _without_system(dialogue))):
            try:
                text = self._run(candidate, variables)
            except Exception as error:  # a template may fail in any way; its first words count
                refusal = refusal or error
                continue
            if _has_all_system_text(candidate, text):
                return candidate, text, variables
            silent = silent or (candidate, text)
        if silent is not None:
            return *silent, variables
        if isinstance(refusal, TemplateRefusal):
            message = f"The model's chat template refuses these messages: {_reason(refusal)}."
            hint = "Let user and assistant take turns, with at most one system message in front."
        else:
            message = f"The model's chat template fails on these messages: {_reason(refusal)}."
            hint = "The template of the model file is at fault; simpler messages or another file of the model may work."
        raise InvalidRequestError(message, param="messages", hint=hint)

    def _run(self, dialogue: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> str:
        with self._lock:
            return self._sandbox.render(self._template, {**variables, "messages": dialogue})

    def _begins_with(self, bos_token: str) -> bool:
        """Tries the simplest dialogue; a template that cannot render even that is of no use."""
        try:
            prompt = self._run([{"role": "user", "content": "x"}], self._variables(True, None))
        except TemplateRefusal:
            return False
        return bool(bos_token) and prompt.startswith(bos_token)

    def _variables(self, add_generation_prompt: bool, template_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
        """All a template sees but the messages."""
        for name in template_kwargs or ():
            if name in _RESERVED:
                param = f"chat_template_kwargs.{name}"
                raise InvalidRequestError(f"{param} would replace a variable of the request.", param=param)
        common = {"tools": self._no_tools, "documents": None, "add_generation_prompt": add_generation_prompt}
        return {**common, **self._tokens, **(template_kwargs or {})}

    def _segments(
        self, dialogue: Sequence[dict[str, Any]], marked: set[int], plain: str, variables: Mapping[str, Any]
    ) -> list[Segment] | None:
        """Renders with a mark in place of each text, then finds the texts in `plain` between what lies around."""
        # Private-use characters and a number nobody can guess: no text contains a mark by accident or by intent.
        begin, end = f"\ue000{secrets.token_hex(8)}:", "\ue001"
        texts: list[str] = []

        def mark(text: str) -> str:
            texts.append(text)
            return f"{begin}{len(texts) - 1}{end}"

        disguised = []
        for message in dialogue:
            copy = dict(message)
            if id(message) in marked:
                for key in ("content", "reasoning_content", "name"):
                    if copy.get(key):  # an empty text keeps its own truth value
                        copy[key] = mark(copy[key])
            disguised.append(copy)
        try:
            rendered = self._run(disguised, variables)
        except Exception:  # the template looks into the texts
            return None
        literal, *pieces = rendered.split(begin)
        expected: list[tuple[str, str]] = []  # (text, the template's text behind it)
        for piece in pieces:
            number, closed, behind = piece.partition(end)
            if not closed or not number.isdigit() or int(number) >= len(texts):
                return None
            expected.append((texts[int(number)], behind))
        return _aligned(plain, literal, expected)


# The segments of one step of _aligned, behind those of the way that led there.
_Way = tuple[Any, tuple[Segment, ...]]


def _aligned(plain: str, literal: str, expected: Sequence[tuple[str, str]]) -> list[Segment] | None:
    """`plain` cut into `literal`, text, literal, text, ...; each text as it is or trimmed. None where it doesn't fit.

    All ways to trim are followed at once, keyed by the place they have reached.
    """
    if not plain.startswith(literal):
        return None
    ways: dict[int, _Way] = {len(literal): (None, (Segment(literal, False),))}
    for text, behind in expected:
        reached: dict[int, _Way] = {}
        for at, way in ways.items():
            for variant in dict.fromkeys((text, text.strip(), text.rstrip(), text.lstrip())):
                to = at + len(variant)
                if plain.startswith(variant, at) and plain.startswith(behind, to):
                    found = (Segment(variant, True), Segment(behind, False))
                    reached.setdefault(to + len(behind), (way, found))
        ways = reached
    last = ways.get(len(plain))
    if last is None:
        return None
    steps: list[tuple[Segment, ...]] = []
    while last is not None:
        last, step = last
        steps.append(step)
    return _compact(segment for step in reversed(steps) for segment in step)


def _compact(segments: Iterable[Segment]) -> list[Segment]:
    """Without empty segments, and with neighbours of one kind as one."""
    compact: list[Segment] = []
    for segment in segments:
        if compact and compact[-1].is_user_text == segment.is_user_text:
            compact[-1] = Segment(compact[-1].text + segment.text, segment.is_user_text)
        elif segment.text:
            compact.append(segment)
    return compact


def _fallback(info: GgufInfo) -> _Fallback:
    if info.architecture in _GEMMA_ARCHITECTURES:
        return _FALLBACK_GEMMA
    if info.architecture == "llama" and info.tokenizer_pre in ("llama-bpe", "llama3", "llama-v3"):
        return _FALLBACK_LLAMA3
    return _FALLBACK_CHATML


def _plain_message(message: Message, keeps_developer: bool) -> dict[str, Any]:
    """A message as templates know it: a dict with text content, tool arguments as objects."""
    role = "system" if message.role == "developer" and not keeps_developer else message.role
    plain: dict[str, Any] = {"role": role, "content": message.text()}
    if message.name is not None:
        plain["name"] = message.name
    if message.reasoning_content is not None:
        plain["reasoning_content"] = message.reasoning_content
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": call.type,
                "function": {"name": call.function.name, "arguments": _arguments(call.function.arguments)},
            }
            for call in message.tool_calls
        ]
    return plain


def _arguments(text: str) -> Any:
    """Tool arguments as an object where they are one, as Hugging Face's templates expect."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return arguments if isinstance(arguments, dict) else text


def _joined(dialogue: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message, empty answers left out; tool results and tool calls stay apart."""
    joined: list[dict[str, Any]] = []
    for message in dialogue:
        if message["role"] == "assistant" and not message["content"] and "tool_calls" not in message:
            continue
        before = joined[-1] if joined else None
        mergeable = before is not None and before["role"] == message["role"] != "tool"
        if before is None or not mergeable or "tool_calls" in before or "tool_calls" in message:
            joined.append(message)
        else:
            texts = [text for text in (before["content"], message["content"]) if text]
            joined[-1] = {**before, "content": "\n\n".join(texts)}
    return joined


def _without_system(dialogue: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All system text at the start of the user message in front, which is made where there is none."""
    system = [message["content"] for message in dialogue if message["role"] == "system" and message["content"]]
    rest = [dict(message) for message in dialogue if message["role"] != "system"]
    if not rest or rest[0]["role"] != "user":
        rest.insert(0, {"role": "user", "content": ""})
    rest[0]["content"] = "\n\n".join([*system, *filter(None, [rest[0]["content"]])])
    return _joined(rest)


def _has_all_system_text(dialogue: Sequence[Mapping[str, Any]], text: str) -> bool:
    """Some templates drop what they don't know instead of refusing it; a lost instruction is worse than a moved one."""
    return all(message["content"].strip() in text for message in dialogue if message["role"] == "system")


def _reason(error: Exception | None) -> str:
    return (str(error) or type(error).__name__).strip().rstrip(".")[:500]
