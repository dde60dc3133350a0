"""FunctionGemma: `call:NAME{key:value}` between control tokens, with a notation of its own for the arguments.

Strings stand between <escape> marks without JSON's escapes, keys are bare, numbers, true, false, null, [...] and {...}
are as in JSON. The grammar enforces names, types, enums, required keys and nesting; bounds and patterns are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from atelico.tools.syntax import CallSyntax

_ESCAPE = "<escape>"
_STRING = r"/(.|\n)*/"
_SCALARS = {
    "integer": r"/-?(0|[1-9][0-9]{0,17})/",
    "number": r"/-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?/",
    "boolean": '("true" | "false")',
    "null": '"null"',
}
_MAX_DEPTH = 12

Literal = Callable[[str], str]


def arguments_grammar(name: str, schema: dict[str, Any], literal: Literal) -> list[str]:
    """Lark rules for the arguments of a tool; the first one is called `name`.

    Args:
        schema: of the arguments.
        literal: a text as Lark, with control tokens where it names them.
    """
    return _Rules(name, literal).build(schema)


class _Rules:
    """The rules of one tool while they are made."""

    def __init__(self, name: str, literal: Literal) -> None:
        self._name = name
        self._literal = literal
        self._rules: dict[str, str] = {}

    def build(self, schema: dict[str, Any]) -> list[str]:
        self._rules[self._name] = ""
        self._rules[self._name] = self._object(schema, 0)
        return [f"{name}: {rule}" for name, rule in self._rules.items()]

    def _new(self, rule: str) -> str:
        name = f"{self._name}_{len(self._rules)}"
        self._rules[name] = rule
        return name

    def _value(self, schema: Any, depth: int) -> str:
        """An expression for a value."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return self._any()
        if "const" in schema or "enum" in schema:
            allowed = [schema["const"]] if "const" in schema else schema["enum"]
            return "(" + " | ".join(self._literal(write_value(value)) for value in allowed) + ")"
        for union in ("anyOf", "oneOf"):
            if isinstance(schema.get(union), list) and schema[union]:
                return "(" + " | ".join(self._value(each, depth + 1) for each in schema[union]) + ")"
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return "(" + " | ".join(self._of_kind(kind, schema, depth) for kind in kinds) + ")"

    def _of_kind(self, kind: Any, schema: dict[str, Any], depth: int) -> str:
        if kind == "string":
            return self._string()
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            item = self._value(schema.get("items"), depth + 1)
            return self._new(f'"[" ({item} ("," {item})*)? "]"')
        if kind == "object":
            return self._new(self._object(schema, depth + 1))
        return self._any()

    def _object(self, schema: dict[str, Any], depth: int) -> str:
        """Keys in the schema's order, which makes the commas between optional ones a matter of two rules per key."""
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        first, later = '""', '""'  # what may follow from here on, without and with a key before
        for key, value in reversed(list(properties.items())):
            member = f"{self._literal(key + ':')} {self._value(value, depth + 1)}"
            first_new, later_new = f"{member} {later}", f'"," {member} {later}'
            if key not in required:
                first_new, later_new = f"({first_new} | {first})", f"({later_new} | {later})"
            first, later = self._new(first_new), self._new(later_new)
        return f'"{{" {first} "}}"'

    def _string(self) -> str:
        mark = self._literal(_ESCAPE)
        if mark.startswith("<["):
            return f"{mark} {self._new(_STRING)} {mark}"
        body = self._new("")
        del self._rules[body]
        self._rules[f"{body}[suffix={mark}]"] = _STRING
        return f"{mark} {body}"

    def _any(self) -> str:
        return "(" + " | ".join([self._string(), *_SCALARS.values()]) + ")"


def write_value(value: Any) -> str:
    """A JSON value in this notation."""
    if isinstance(value, str):
        return f"{_ESCAPE}{value}{_ESCAPE}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_value, value)) + "]"
    return json.dumps(value)


def read_arguments(text: str) -> str:
    """Arguments in this notation as JSON.

    Raises:
        ValueError: they are incomplete or not in this notation.
    """
    value, end = _read(text, 0)
    if end != len(text) or not isinstance(value, dict):
        raise ValueError(f"arguments go on after their end: {text[end : end + 40]!r}")
    return json.dumps(value, ensure_ascii=False)


def _read(text: str, at: int) -> tuple[Any, int]:
    """(the value that begins at `at`, where it ends)."""
    if text.startswith(_ESCAPE, at):
        start = at + len(_ESCAPE)
        end = text.index(_ESCAPE, start)
        return text[start:end], end + len(_ESCAPE)
    if text[at : at + 1] == "{":
        return _read_members(text, at + 1)
    if text[at : at + 1] == "[":
        return _read_items(text, at + 1)
    scalar = re.compile(r"true|false|null|-?\d+(\.\d+)?").match(text, at)
    if scalar is None:
        raise ValueError(f"no value: {text[at : at + 40]!r}")
    return json.loads(scalar[0]), scalar.end()


def _read_members(text: str, at: int) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    while text[at : at + 1] != "}":
        colon = text.index(":", at)
        key = text[at:colon].lstrip(",")
        members[key], at = _read(text, colon + 1)
    return members, at + 1


def _read_items(text: str, at: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while text[at : at + 1] != "]":
        item, at = _read(text, at + (text[at : at + 1] == ","))
        items.append(item)
    return items, at + 1


FUNCTION_GEMMA = CallSyntax(
    name="function-gemma",
    prefix="<start_function_call>call:",
    middle="",
    suffix="<end_function_call>",
    separator="",
    trigger="<start_function_call>",
    markers=("<start_function_call>", "<end_function_call>", _ESCAPE),
    arguments_grammar=arguments_grammar,
    read_arguments=read_arguments,
)


def matches(template: str) -> bool:
    """Whether a chat template writes calls so."""
    return "<start_function_call>" in template
