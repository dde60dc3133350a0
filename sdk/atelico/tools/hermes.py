"""Hermes and Qwen: one tagged JSON object per call, possibly after some text."""

from __future__ import annotations

from atelico.tools.syntax import CallSyntax

HERMES = CallSyntax(
    name="hermes",
    prefix='<tool_call>\n{"name": "',
    middle='", "arguments": ',
    suffix="}\n</tool_call>",
    separator="\n",
    trigger="<tool_call>",
    markers=("<tool_call>", "</tool_call>"),
)


def matches(template: str) -> bool:
    """Whether a chat template writes calls so."""
    return "<tool_call>" in template
