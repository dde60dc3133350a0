"""Which keywords of a schema the engine cannot enforce, and the schema without them.

The engine is asked, not second-guessed: every keyword that could be at fault is relaxed, then as many as possible are
put back in groups (delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002).
What cannot be put back is at fault. A schema that is accepted as it stands costs one call.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher, LLParserLimits

from atelico.errors import SchemaError
from atelico.grammar.patterns import without_look_around
from atelico.grammar.schema import UNKNOWN_TO_ENGINE, UNSUPPORTED, Node, Path, Place, children, path_text, places

# For objects of 800 optional properties; the engine's default of 2,000 items ends at about 500.
# Lexer fuel is per mask and the tokens walked after it: patterns such as (\S+\s+){0,99} used up the default of 200,000.
LIMITS = LLParserLimits(
    max_items_in_row=20_000, step_max_items=500_000, step_lexer_fuel=1_000_000, verbose_errors=False
)
# Seconds for naming culprits; a hostile schema gets a coarser answer, not a longer wait.
_TIME_BUDGET_S = 1.0

_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
# Refused for some values only, and only with a value of the right type: a malformed schema is not weakened.
_VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "pattern": (str,),
    "format": (str,),
    **dict.fromkeys((*_NUMERIC, *_SIZES), (int, float)),
}
_SHOWN = 3


@dataclass(frozen=True)
class Finding:
    """A keyword that is not enforced."""

    path: Path
    reason: str
    # What became of it where the schema was weakened.
    outcome: str = "it is ignored"

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.reason}"


@dataclass(frozen=True)
class _Relaxation:
    """One keyword at one place, and its node with and without it."""

    path: Path
    node: Node
    strict: Node
    relaxed: Node
    outcome: str

    def relax(self) -> None:
        # Only the keys that this relaxation is about: others of the node have relaxations of their own.
        for key in self.strict.keys() - self.relaxed.keys():
            self.node.pop(key, None)
        self.node.update(self.relaxed)

    def restore(self) -> None:
        for key in self.relaxed.keys() - self.strict.keys():
            self.node.pop(key, None)
        self.node.update(self.strict)


def enforceable(schema: Node, where: str, *, strict: bool) -> tuple[Node, list[Finding]]:
    """`schema` as far as the engine enforces it, and what had to go.

    Args:
        schema: normalised; changed in place.
        where: how messages call it, such as "The schema 'npc'".
        strict: refuse instead of weakening.

    Raises:
        SchemaError: strict and not all enforceable; or no document satisfies it, a reference leads nowhere, or it is
            not a schema.
    """
    error = engine_error(schema)
    deadline = time.monotonic() + _TIME_BUDGET_S
    findings = _foreign(schema)
    if error:
        findings += _relax(schema, where, error, deadline)
    if findings and strict:
        shown = "; ".join(map(str, findings[:_SHOWN])) + ("; ..." if len(findings) > _SHOWN else "")
        raise SchemaError(
            f"{where} cannot be enforced: {shown}.",
            hint="Remove the keyword, or leave out strict to have it ignored with a warning.",
        )
    return schema, findings


def engine_error(schema: Any) -> str:
    """The engine's first line on why it refuses `schema`, or ""."""
    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps({} if schema is True else schema))
    except ValueError as error:
        return str(error)
    message = LLMatcher.validate_grammar(grammar, limits=LIMITS)
    return "" if message.startswith("WARNING") else _clean(message)


def _foreign(schema: Node) -> list[Finding]:
    return [
        Finding((*place.path, keyword), "the keyword is not supported")
        for place in places(schema)
        if isinstance(place.node, dict)
        for keyword in place.node
        if keyword in UNKNOWN_TO_ENGINE
    ]


def _relax(schema: Node, where: str, error: str, deadline: float) -> list[Finding]:
    candidates = [relaxation for place in places(schema) for relaxation in _relaxations(place)]
    for candidate in candidates:
        candidate.relax()
    left = engine_error(schema)
    if left:
        path = _culprit(schema, deadline)
        reason = "what it refers to is not in the schema" if _leads_nowhere(left) else left
        raise SchemaError(f"{where} cannot be used: {path_text(path)}: {reason}.", hint=_hint(left))
    findings: list[Finding] = []
    groups = [candidates]
    while groups:
        group = groups.pop()
        for candidate in group:
            candidate.restore()
        error = engine_error(schema) if time.monotonic() < deadline else error
        if not error:
            continue
        if len(group) == 1 and error.startswith("Unsatisfiable"):
            raise SchemaError(f"{where} cannot be used: {path_text(group[0].path)}: {error}.", hint=_hint(error))
        for candidate in group:
            candidate.relax()
        if len(group) == 1 or time.monotonic() >= deadline:
            findings += [Finding(item.path, _reason(item, error), item.outcome) for item in group]
        else:
            middle = len(group) // 2
            groups += [group[middle:], group[:middle]]
    return findings


def _relaxations(place: Place) -> list[_Relaxation]:
    node = place.node
    if not isinstance(node, dict):
        return []
    found = []
    for keyword, value in node.items():
        relaxed: Node | None = None
        strict = {keyword: value}
        outcome = "it is ignored"
        if keyword in UNSUPPORTED or isinstance(value, _VALUE_TYPES.get(keyword, ())):
            relaxed = {}
            if keyword == "pattern":
                shorter = without_look_around(value)
                if shorter != value and not engine_error({"type": "string", keyword: shorter}):
                    relaxed = {keyword: shorter}
                    outcome = "the rest of the pattern is enforced"
        elif keyword == "patternProperties":
            # Keys that matched a pattern must stay possible, whatever additionalProperties says about the others.
            if "additionalProperties" in node:
                strict["additionalProperties"] = node["additionalProperties"]
            relaxed = {"additionalProperties": True}
            outcome = "properties of any other name are allowed"
        elif keyword == "oneOf" and isinstance(value, list):
            outcome = "it is treated as anyOf"
            if "anyOf" in node:
                all_of = node.get("allOf", [])
                strict |= {"allOf": all_of} if "allOf" in node else {}
                relaxed = {"allOf": [*all_of, {"anyOf": value}]}
            else:
                relaxed = {"anyOf": value}
        if relaxed is not None:
            found.append(_Relaxation((*place.path, keyword), node, strict, relaxed, outcome))
    return found


def _reason(relaxation: _Relaxation, error: str) -> str:
    keyword = str(relaxation.path[-1])
    value = relaxation.strict[keyword]
    if keyword in UNSUPPORTED:
        return "the keyword is not supported"
    if keyword == "format":
        return f"the format {json.dumps(value)} is not known"
    if keyword == "oneOf":
        return "its alternatives are not provably exclusive"
    if keyword in ("minProperties", "maxProperties"):
        return "it is supported only where every listed property is required"
    if re.search(r"look-?(around|ahead|behind)", error, re.IGNORECASE):
        return "look-around is not supported"
    return error


def _culprit(schema: Node, deadline: float) -> Path:
    """The path of the innermost schema, and of its keyword, without which the engine would accept `schema`."""
    place = Place((), schema, None, None)
    while True:
        inner = _smallest_culprit(list(children(place)), lambda: engine_error(schema), deadline)
        if inner is None:
            break
        place = inner
    if isinstance(place.node, dict):
        for keyword in list(place.node):
            if time.monotonic() >= deadline:
                break
            # On a copy with the key left out, so that the order of the others stays.
            without = {key: value for key, value in place.node.items() if key != keyword}
            if place.holder is None:
                repaired = not engine_error(without)
            else:
                place.holder[place.key] = without
                repaired = not engine_error(schema)
                place.holder[place.key] = place.node
            if repaired:
                return (*place.path, keyword)
    return place.path


def _smallest_culprit(siblings: Sequence[Place], error: Callable[[], str], deadline: float) -> Place | None:
    """The one of `siblings` that is refused even when all the others allow everything; None when it is not one."""

    def restore(some: Sequence[Place]) -> None:
        for place in some:
            place.holder[place.key] = place.node

    def allow_everything(some: Sequence[Place]) -> None:
        for place in some:
            place.holder[place.key] = True

    if not siblings:
        return None
    group = siblings
    try:
        allow_everything(group)
        if time.monotonic() >= deadline or error():
            return None
        while len(group) > 1:
            first, second = group[: len(group) // 2], group[len(group) // 2 :]
            restore(first)
            if time.monotonic() >= deadline:
                return None
            refused = bool(error())
            allow_everything(first)
            group = first if refused else second
        return group[0]
    finally:
        restore(siblings)


def _clean(message: str) -> str:
    """The engine's message without its position prefix, its source excerpt and its final stop."""
    text = re.sub(r"^(WARNING: )?(at \d+\(\d+\): )?(failed to compile JSON schema: )?", "", message.strip())
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    detail = next((line for line in lines if line.startswith("error: ")), lines[0] if lines else "")
    return detail.removeprefix("error: ").rstrip(".")[:300]


def _leads_nowhere(error: str) -> bool:
    return "not present in a registry" in error or ("Pointer" in error and "does not exist" in error)


def _hint(error: str) -> str:
    if _leads_nowhere(error):
        return "Copy what the reference points to into $defs."
    if error.startswith("Unsatisfiable"):
        return "Correct keywords that contradict each other, or write the schema more simply."
    if "too big" in error or "too large" in error:
        return "Use a smaller schema."
    return "Correct the schema."
