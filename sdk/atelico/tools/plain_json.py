"""Plain JSON: for models that were taught no format. prompt.py explains it to them, the grammar enforces it."""

from __future__ import annotations

from atelico.tools.syntax import CallSyntax

PLAIN_JSON = CallSyntax(name="json", prefix='{"name": "', middle='", "arguments": ', suffix="}", separator="\n")
