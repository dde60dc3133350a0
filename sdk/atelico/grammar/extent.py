"""Extent: where an answer stands as a JSON text, and how large its open parts are. Knows no schema and no mask."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

from atelico.grammar.schema import children, places

# Beyond these a small model is running away rather than writing. They hold where the schema has no word of its own;
# the largest size it names lifts its kind of bound for the whole schema.
MAX_STRING_CHARS = 4_096
MAX_ITEMS = 256
MAX_OPEN = 32

_OBJECT = -1
_CONTINUATION = bytes(range(0x80, 0xC0))  # the further bytes of UTF-8 characters


class Bounds(NamedTuple):
    """How large the parts of a document may grow: characters of a string, items of an array, open containers."""

    string_chars: int = MAX_STRING_CHARS
    items: int = MAX_ITEMS
    open: int = MAX_OPEN


def bounds_of(schema: dict[str, Any]) -> Bounds:
    """The default bounds, raised to whatever `schema` explicitly names."""
    string_chars, items, deepest = MAX_STRING_CHARS, MAX_ITEMS, 0
    level = [place for place in places(schema) if not place.path]
    while level:
        deepest += 1
        level = [child for place in level for child in children(place)]
    for place in places(schema):
        if not isinstance(place.node, dict):
            continue
        for keyword in ("minLength", "maxLength"):
            string_chars = max(string_chars, _count(place.node.get(keyword)))
        for keyword in ("minItems", "maxItems", "minProperties", "maxProperties"):
            items = max(items, _count(place.node.get(keyword)))
    return Bounds(string_chars, items, max(MAX_OPEN, deepest))


class Phase(Enum):
    """What the text is in."""

    START = auto()  # a thought may come, or the document
    THOUGHT = auto()
    DOCUMENT = auto()


class Tags(NamedTuple):
    """The texts around a thought."""

    open: bytes
    close: bytes


class Extent(NamedTuple):
    """A place in an answer. A value: drafts are walked on copies.

    Attributes:
        open: the open containers, outermost first: -1 an object, else an array after so many commas.
        n_chars: characters of the open string so far.
        held: text that may be part of a tag.
    """

    phase: Phase = Phase.DOCUMENT
    open: tuple[int, ...] = ()
    in_string: bool = False
    escaped: bool = False
    n_chars: int = 0
    held: bytes = b""
    tags: Tags | None = None

    @staticmethod
    def at_start(tags: Tags | None, *, inside: bool) -> Extent:
        """The place before an answer; `inside`: the prompt ends in a thought."""
        if tags is None:
            return Extent()
        return Extent(Phase.THOUGHT if inside else Phase.START, tags=tags)

    def after(self, piece: bytes) -> Extent:
        """The place after the text of one more token."""
        if self.phase is Phase.DOCUMENT:
            return self._document(piece)
        assert self.tags is not None
        text = self.held + piece
        if self.phase is Phase.START:
            stripped = text.lstrip()
            if self.tags.open.startswith(stripped):
                return self._replace(held=text)
            if not stripped.startswith(self.tags.open):
                return self._replace(phase=Phase.DOCUMENT, held=b"")._document(text)
            text = stripped.removeprefix(self.tags.open)
        thought, close, rest = text.partition(self.tags.close)
        if close:
            return self._replace(phase=Phase.DOCUMENT, held=b"")._document(rest)
        return self._replace(phase=Phase.THOUGHT, held=thought[-len(self.tags.close) :])

    def is_full(self, bounds: Bounds) -> tuple[bool, bool, bool]:
        """Which bounds are reached: of the open string, of the innermost array, of the open containers."""
        if self.phase is not Phase.DOCUMENT:
            return False, False, False
        innermost = next((n for n in reversed(self.open) if n != _OBJECT), _OBJECT)
        return (
            self.in_string and self.n_chars >= bounds.string_chars,
            innermost + 1 >= bounds.items,
            len(self.open) >= bounds.open,
        )

    @property
    def in_array(self) -> bool:
        """Whether the innermost open container is an array."""
        return bool(self.open) and self.open[-1] != _OBJECT

    def _document(self, piece: bytes) -> Extent:
        if self.in_string and not self.escaped and b'"' not in piece and b"\\" not in piece:
            return self._replace(n_chars=self.n_chars + len(piece.translate(None, _CONTINUATION)))
        stack = list(self.open)
        in_string, escaped, n_chars = self.in_string, self.escaped, self.n_chars
        for char in piece:
            if in_string:
                n_chars += char & 0xC0 != 0x80  # not within a character
                if escaped:
                    escaped = False
                elif char == 0x5C:
                    escaped = True
                elif char == 0x22:
                    in_string = False
            elif char == 0x22:
                in_string, n_chars = True, 0
            elif char in b"{[":
                stack.append(_OBJECT if char == 0x7B else 0)
            elif char in b"}]" and stack:
                stack.pop()
            elif char == 0x2C and stack and stack[-1] != _OBJECT:
                stack[-1] += 1
        return self._replace(open=tuple(stack), in_string=in_string, escaped=escaped, n_chars=n_chars)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
