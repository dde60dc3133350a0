"""Mistral: a control token, then a JSON array of calls; newer models put a control token before each call instead."""

from __future__ import annotations

from atelico.tools.syntax import CallSyntax

MISTRAL = CallSyntax(
    name="mistral",
    prefix='{"name": "',
    middle='", "arguments": ',
    suffix="}",
    separator=", ",
    opening="[TOOL_CALLS][",
    closing="]",
    trigger="[TOOL_CALLS]",
    markers=("[TOOL_CALLS]",),
    id_length=9,
)
MISTRAL_NAMED = CallSyntax(
    name="mistral-named",
    prefix="[TOOL_CALLS]",
    middle="[ARGS]",
    suffix="",
    separator="",
    trigger="[TOOL_CALLS]",
    markers=("[TOOL_CALLS]", "[ARGS]"),
    id_length=9,
)


def matches(template: str) -> bool:
    """Whether a chat template writes calls in an array."""
    return "[TOOL_CALLS]" in template


def matches_named(template: str) -> bool:
    """Whether a chat template names each call after its own control token."""
    return "[TOOL_CALLS]" in template and "[ARGS]" in template
