"""Llama 3.1 and later: the whole answer is a JSON object with `parameters`."""

from __future__ import annotations

from atelico.tools.syntax import CallSyntax

LLAMA3 = CallSyntax(name="llama3", prefix='{"name": "', middle='", "parameters": ', suffix="}", separator="; ")
# Beside a response_format an answer may be JSON of its own; the model's tag tells the two apart.
LLAMA3_TAGGED = CallSyntax(
    name="llama3-tagged",
    prefix='{"name": "',
    middle='", "parameters": ',
    suffix="}",
    separator="; ",
    opening="<|python_tag|>",
    trigger="<|python_tag|>",
    markers=("<|python_tag|>",),
)


def matches(template: str) -> bool:
    """Whether a chat template writes calls so."""
    return "<|python_tag|>" in template or ('"parameters": ' in template and "ipython" in template)
