"""CallReader: calls out of a text while it arrives. The grammar has enforced the syntax, so nothing here guesses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from atelico.protocol.request import FunctionCall, ToolCall
from atelico.protocol.response import FunctionDelta, ToolCallDelta
from atelico.tools.syntax import CallSyntax


class _State(Enum):
    START = auto()  # nothing but space so far: where calls stand alone, they begin here or not at all
    TEXT = auto()
    HEAD = auto()  # in a call, before its arguments
    ARGUMENTS = auto()
    TAIL = auto()  # after the arguments, before the next call


@dataclass
class CallReader:
    """Parts one answer's text into what it says and the calls it makes; lives as long as one answer.

    What belongs to a call, and space in front of one, never shows in the text. Arguments are given out as they come
    where they are JSON, else once they are complete.

    Attributes:
        names: the functions that may be called.
        calls: the calls so far.
    """

    syntax: CallSyntax
    names: Sequence[str]
    calls: list[ToolCall] = field(default_factory=list)
    _state: _State = _State.START
    _held: str = ""
    _json: JsonEnd | None = None

    def feed(self, text: str) -> tuple[str, list[ToolCallDelta]]:
        """(new text, what is new of the calls) after the next piece of the answer."""
        self._held += text
        said, deltas = "", list[ToolCallDelta]()
        while True:
            before = self._state, len(self._held)
            match self._state:
                case _State.START:
                    self._start()
                case _State.TEXT:
                    said += self._text()
                case _State.HEAD:
                    deltas += self._head()
                case _State.ARGUMENTS:
                    deltas += self._arguments()
                case _State.TAIL:
                    self._tail()
            if (self._state, len(self._held)) == before:
                return said, deltas

    def finish(self) -> tuple[str, list[ToolCallDelta]]:
        """What is still held back at the end of the answer. A call that was cut keeps the arguments it has."""
        held, self._held = self._held, ""
        if self._state in (_State.START, _State.TEXT):
            return held, []
        if self._state is _State.ARGUMENTS and held:
            return "", [self._more(held)]
        return "", []

    def _start(self) -> None:
        if self.syntax.trigger:
            self._state = _State.TEXT
            return
        head = self.syntax.opening + self.syntax.prefix
        text = self._held.lstrip()
        if text.startswith(head):
            self._held, self._state = text, _State.HEAD
        elif not head.startswith(text):
            self._state = _State.TEXT

    def _text(self) -> str:
        trigger = self.syntax.trigger
        if not trigger:
            said, self._held = self._held, ""
            return said
        said, found, _ = self._held.partition(trigger)
        if found:
            self._held = self._held[len(said) :]
            self._state = _State.HEAD
            return said.rstrip()
        n_sure = len(said) - _overlap(said, trigger)
        n_sure = len(said[:n_sure].rstrip())  # space in front of a call is not text
        self._held = said[n_sure:]
        return said[:n_sure]

    def _head(self) -> list[ToolCallDelta]:
        for name in self.names:
            for opening in (self.syntax.opening, ""):
                head = f"{opening}{self.syntax.prefix}{name}{self.syntax.middle}"
                if self._held.startswith(head) and not self._could_be_longer(head):
                    self._held = self._held[len(head) :]
                    self._state = _State.ARGUMENTS
                    self._json = JsonEnd() if self.syntax.read_arguments is None else None
                    return [self._begin(name)]
        return []

    def _could_be_longer(self, head: str) -> bool:
        """Where nothing stands between name and arguments, one name may begin with another."""
        return not self.syntax.middle and self._held[len(head) : len(head) + 1] != "{"

    def _begin(self, name: str) -> ToolCallDelta:
        call = ToolCall(id=self.syntax.make_id(), function=FunctionCall(name=name, arguments=""))
        self.calls.append(call)
        function = FunctionDelta(name=name, arguments="")
        return ToolCallDelta(index=len(self.calls) - 1, id=call.id, type="function", function=function)

    def _arguments(self) -> list[ToolCallDelta]:
        if self.syntax.read_arguments is not None:
            written, found, rest = self._held.partition(self.syntax.suffix)
            if not found:
                return []
            self._held, self._state = found + rest, _State.TAIL
            return [self._more(self.syntax.read_arguments(written))]
        assert self._json is not None
        end = self._json.feed(self._held)
        if end is not None:
            piece, self._held, self._state = self._held[:end], self._held[end:], _State.TAIL
        else:
            piece, self._held = self._held, ""
        return [self._more(piece)] if piece else []

    def _more(self, arguments: str) -> ToolCallDelta:
        self.calls[-1].function.arguments += arguments
        return ToolCallDelta(index=len(self.calls) - 1, function=FunctionDelta(arguments=arguments))

    def _tail(self) -> None:
        """Waits for the next call; everything until then is syntax."""
        between = self.syntax.suffix + self.syntax.separator
        if self.syntax.read_arguments is None:
            self._held = self._held.lstrip()
        if self._held.startswith(between) and len(self._held) > len(between):
            self._held = self._held[len(between) :]
            self._state = _State.HEAD


def joined(deltas: Sequence[ToolCallDelta]) -> list[ToolCallDelta]:
    """The same with one entry per call: some clients expect no more in one chunk."""
    calls: list[ToolCallDelta] = []
    for delta in deltas:
        last = calls[-1] if calls else None
        if last is None or last.index != delta.index or last.function is None or delta.function is None:
            calls.append(delta)
        else:
            last.function.arguments = (last.function.arguments or "") + (delta.function.arguments or "")
    return calls


class JsonEnd:
    """Finds the end of a JSON object in text that comes in pieces."""

    _INTERESTING = re.compile(r'["{}\[\]\\]')

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str) -> int | None:
        """Where in `text` the object ends (one past its last character), or None when it does not yet."""
        at = 0
        if self._escaped and text:
            self._escaped, at = False, 1
        while (found := self._INTERESTING.search(text, at)) is not None:
            at = found.end()
            match found[0]:
                case '"':
                    self._in_string = not self._in_string
                case "\\" if self._in_string:
                    self._escaped = at == len(text)
                    at += 1
                case "{" | "[" if not self._in_string:
                    self._depth += 1
                case "}" | "]" if not self._in_string:
                    self._depth -= 1
                    if self._depth == 0:
                        return at
        return None


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of `text` that is a proper beginning of `tag`."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
