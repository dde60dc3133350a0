"""Regular expressions of `pattern`: taking look-around out. Nothing here runs or compiles one."""

from __future__ import annotations

_OPENINGS = ("(?=", "(?!", "(?<=", "(?<!")


def without_look_around(pattern: str) -> str:
    """`pattern` without its look-ahead, look-behind and word-boundary assertions.

    An assertion consumes nothing and only forbids, so what is left matches everything that `pattern` matched.
    """
    kept: list[str] = []
    at = 0
    in_class = False
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        if not in_class and pattern.startswith(_OPENINGS, at):
            at = _end_of_group(pattern, at)
            continue
        if in_class or piece not in ("\\b", "\\B"):
            kept.append(piece)
        in_class = piece == "[" or (in_class and piece != "]")
        at += len(piece)
    return "".join(kept)


def _end_of_group(pattern: str, start: int) -> int:
    """The index after the parenthesis that closes the group at `start`; the end where none does."""
    depth = 0
    in_class = False
    at = start
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(pattern)
