"""Text out: bytes of tokens become text that never splits a character, a stop string or a thinking tag."""

from __future__ import annotations

import bisect
import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from atelico.models.thinking import ThinkSplitter
from atelico.protocol.response import ToolCallDelta
from atelico.tools.reader import CallReader


@dataclass(frozen=True)
class TextDelta:
    """What became certain: answer text, thoughts, tool calls, and how many tokens are covered by what was released."""

    content: str
    reasoning: str
    n_tokens: int
    calls: Sequence[ToolCallDelta] = ()


class TextStream:
    """The text of one choice, fed token by token.

    A UTF-8 character is held back until it is whole, a possible beginning of a stop string until it is decided. The
    joined deltas equal the full text. Stop strings are looked for in the answer, not in the thoughts before it.
    Tool calls are parted from the answer last, where there is a reader for them.

    Attributes:
        reader: has the calls.
        stopped: whether a stop string ended the text; nothing may be fed after that.
    """

    def __init__(
        self, stops: Sequence[str] = (), splitter: ThinkSplitter | None = None, reader: CallReader | None = None
    ) -> None:
        self._stops = list(stops)
        self.reader = reader
        self._splitter = splitter
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # Where each token's text begins and ends, in characters of all the text decoded so far.
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._n_decoded = 0
        self._held = ""  # the answer's end that may belong to a stop string
        self._cut: int | None = None
        self.stopped = False
        self.n_reasoning_tokens = 0

    def feed(self, piece: bytes) -> TextDelta:
        """Append the bytes of the next token."""
        text = self._decoder.decode(piece)
        unfinished = bool(self._decoder.getstate()[0])  # the token ends inside the next character
        self._starts.append(self._n_decoded)
        self._ends.append(self._n_decoded + len(text) + unfinished)
        return self._advance(text, final=False)

    def finish(self) -> TextDelta:
        """Release what is held back; the text is complete."""
        return self._advance(self._decoder.decode(b"", final=True), final=True)

    @property
    def n_tokens(self) -> int:
        """Tokens that contribute to the returned text: all, or those that begin before the stop string."""
        if self._cut is None:
            return len(self._starts)
        return sum(start < self._cut for start in self._starts)

    def _advance(self, text: str, *, final: bool) -> TextDelta:
        if self.stopped:
            return TextDelta("", "", self.n_tokens)
        self._n_decoded += len(text)
        reasoning, answer = self._split(text, final=final)
        if self._splitter is not None and (reasoning or self._splitter.inside):
            self.n_reasoning_tokens = len(self._starts)
        self._held += answer
        content, calls = self._part(self._release(final=final), final=final)
        return TextDelta(content, reasoning, self.n_tokens if final else self._n_released_tokens(), calls)

    def _part(self, answer: str, *, final: bool) -> tuple[str, list[ToolCallDelta]]:
        """Text and calls within released `answer`."""
        if self.reader is None:
            return answer, []
        content, calls = self.reader.feed(answer)
        if final or self.stopped:
            last_content, last_calls = self.reader.finish()
            content, calls = content + last_content, calls + last_calls
        return content, calls

    def _split(self, text: str, *, final: bool) -> tuple[str, str]:
        """Thoughts and answer within `text`."""
        if self._splitter is None:
            return "", text
        reasoning, answer = self._splitter.feed(text)
        if final:
            last_reasoning, last_answer = self._splitter.finish()
            reasoning, answer = reasoning + last_reasoning, answer + last_answer
        return reasoning, answer

    def _release(self, *, final: bool) -> str:
        """The part of the held answer that no stop string can claim any more."""
        found = [index for stop in self._stops if (index := self._held.find(stop)) >= 0]
        if found:
            index = min(found)
            self.stopped = True
            self._cut = self._n_decoded - len(self._held) + index
            released, self._held = self._held[:index], ""
            return released
        keep = 0 if final else max((_overlap(self._held, stop) for stop in self._stops), default=0)
        split = len(self._held) - keep
        released, self._held = self._held[:split], self._held[split:]
        return released

    def _n_released_tokens(self) -> int:
        if self.stopped:
            return self.n_tokens
        held = len(self._held) + (self._splitter.n_held if self._splitter is not None else 0)
        released = self._n_decoded - held
        # A token without text of its own waits for what follows: a stop string there would take it away.
        return min(bisect.bisect_right(self._ends, released), bisect.bisect_left(self._starts, released))


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a proper beginning of `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
