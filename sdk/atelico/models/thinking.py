"""The thoughts of thinking models: which tags mark them, and parting them from the answer while text arrives.

Works on decoded text only; tokens, templates and the grammar are elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


@dataclass(frozen=True, slots=True)
class ThinkingFormat:
    """The texts around a thought."""

    open: str
    close: str


# Well-known pairs: DeepSeek-R1, Qwen3, SmolLM3 and many more; Magistral; Seed-OSS.
FORMATS: Final = (
    ThinkingFormat("<think>", "</think>"),
    ThinkingFormat("[THINK]", "[/THINK]"),
    ThinkingFormat("<seed:think>", "</seed:think>"),
)


def detect(template: str | None) -> ThinkingFormat | None:
    """The format that a chat template's text mentions; None for a model that doesn't think.

    The closing tag alone is enough: templates of models that open the thought themselves only cut old thoughts off.
    """
    return next((f for f in FORMATS if template and (f.open in template or f.close in template)), None)


def starts_inside(thinking: ThinkingFormat, prompt: str) -> bool:
    """Whether `prompt` ends in a thought that the model only has to go on with."""
    return prompt.rstrip().endswith(thinking.open)


class _State(Enum):
    START = auto()  # nothing but space so far, or only closed thoughts: a thought may open here
    THOUGHT = auto()
    ANSWER = auto()  # to the end; tags are text here, so an answer may quote them


class ThinkSplitter:
    """Parts a generated text into thoughts and answer as it arrives; lives as long as one answer.

    A thought may open only at the start of the answer or right after another thought. The result doesn't depend on
    how the text is cut into pieces, and no part of a tag ever shows up in either delta. Space around a thought and
    newlines after it are dropped, so an empty thought leaves nothing.
    """

    def __init__(self, thinking: ThinkingFormat, *, inside: bool = False) -> None:
        """`inside`: the prompt has already opened the thought (see starts_inside)."""
        self._format = thinking
        self._state = _State.THOUGHT if inside else _State.START
        self._held = ""  # text that cannot be given out yet
        self._may_repeat_open = inside  # some models open the thought again that the prompt has opened
        self._after_thought = False
        self._reasoned = False
        self._separate = False

    @property
    def inside(self) -> bool:
        """Whether the text so far ends inside a thought; the answer, and so a schema, begins later."""
        return self._state is _State.THOUGHT

    @property
    def n_held(self) -> int:
        """Characters that were fed and cannot be given out yet."""
        return len(self._held)

    def feed(self, text: str) -> tuple[str, str]:
        """The next piece of text in, (reasoning delta, answer delta) out; either may be ""."""
        self._held += text
        reasoning, answer = "", ""
        while True:
            state, held = self._state, len(self._held)
            if state is _State.ANSWER:
                answer += self._held
                self._held = ""
                return reasoning, answer
            if state is _State.START:
                self._start()
            else:
                reasoning += self._thought()
            if self._state is state and len(self._held) == held:
                return reasoning, answer

    def finish(self) -> tuple[str, str]:
        """What was still held back, at the end of the text; the last two deltas."""
        held, self._held = self._held, ""
        if self._state is _State.THOUGHT:
            # Held back is space, or the beginning of a tag that never came.
            return self._reasoning(held.rstrip()), ""
        self._state = _State.ANSWER
        return "", held.lstrip("\r\n") if self._after_thought else held

    def _start(self) -> None:
        text = self._held.lstrip()
        if text.startswith(self._format.open):
            self._held = text.removeprefix(self._format.open)
            self._state = _State.THOUGHT
        elif not self._format.open.startswith(text):
            self._state = _State.ANSWER
            if self._after_thought:
                self._held = self._held.lstrip("\r\n")

    def _thought(self) -> str:
        """Gives out what is surely thought."""
        if self._may_repeat_open:
            text = self._held.lstrip()
            if text.startswith(self._format.open):
                self._held = text.removeprefix(self._format.open)
            elif self._format.open.startswith(text):
                return ""
            self._may_repeat_open = False
        thought, close, rest = self._held.partition(self._format.close)
        if close:
            self._held, self._state = rest, _State.START
            self._after_thought = True
            delta = self._reasoning(thought.rstrip())
            self._separate = self._reasoned
            return delta
        sure = len(thought) - _partial(thought, self._format.close)
        sure = len(thought[:sure].rstrip())
        self._held = thought[sure:]
        return self._reasoning(thought[:sure])

    def _reasoning(self, text: str) -> str:
        """A delta without the space before the first word of each thought; thoughts are parted by a newline."""
        if not self._reasoned or self._separate:
            text = text.lstrip()
            if not text:
                return ""
            if self._separate:
                text = "\n" + text
            self._reasoned, self._separate = True, False
        return text


def split(text: str, thinking: ThinkingFormat, *, inside: bool = False) -> tuple[str | None, str]:
    """(reasoning or None, answer) of a whole text."""
    splitter = ThinkSplitter(thinking, inside=inside)
    fed, finished = splitter.feed(text), splitter.finish()
    return (fed[0] + finished[0]) or None, fed[1] + finished[1]


def _partial(text: str, tag: str) -> int:
    """The length of the longest end of `text` that `tag` begins with."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
