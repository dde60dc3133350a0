"""The grammar of an answer that may call tools, in llguidance's Lark dialect: text, calls, or a document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from atelico.tools.syntax import CallSyntax

# Of one answer. Small models that may go on calling tend to do so until max_tokens.
MAX_CALLS = 16

# A text as a Lark expression: control tokens of the model where it names one, string literals between.
Literal = Callable[[str], str]


def literal_for(markers: Sequence[str], symbol: Callable[[str], str]) -> Literal:
    """The function that writes texts for one model.

    Args:
        markers: the texts that may be control tokens.
        symbol: a marker as Lark: "<[id]>" or a quoted text.
    """
    parts = re.compile("(" + "|".join(map(re.escape, markers)) + ")") if markers else None

    def literal(text: str) -> str:
        pieces = parts.split(text) if parts is not None else [text]
        written: list[str] = []
        plain = ""
        for piece in pieces:
            marked = symbol(piece) if piece in markers else ""
            if marked.startswith("<["):
                written += [_quoted(plain)] if plain else []
                written.append(marked)
                plain = ""
            else:
                plain += piece
        if plain or not written:
            written.append(_quoted(plain))
        return " ".join(written)

    return literal


def call_rules(
    syntax: CallSyntax,
    tools: Sequence[tuple[str, dict[str, Any]]],
    literal: Literal,
    json_rule: Callable[[dict[str, Any]], str],
    *,
    required: bool,
    parallel: bool,
    document: str | None = None,
) -> list[str]:
    """Rules for the symbol `body`.

    Args:
        tools: (name, schema of the arguments) of each tool that may be called.
        json_rule: a schema as a Lark expression.
        required: whether nothing but calls is allowed.
        parallel: whether there may be several.
        document: the expression of the answer without a call, where a response_format says what it is.
    """
    calls = [
        f"{literal(f'{name}{syntax.middle}')} arguments_{i} {literal(syntax.suffix) if syntax.suffix else ''}"
        for i, (name, _) in enumerate(tools)
    ]
    rules = [f"called: {' | '.join(calls)}"]
    for i, (_, schema) in enumerate(tools):
        if not schema.get("properties") and schema.get("additionalProperties") is False:
            rules.append(f'arguments_{i}: "{{}}"')  # no arguments at all: no white space to get lost in either
        elif syntax.arguments_grammar is None:
            rules.append(f"arguments_{i}: {json_rule(schema)}")
        else:
            rules += syntax.arguments_grammar(f"arguments_{i}", schema, literal)
    more = (
        f"({_optional(literal, syntax.separator)} {literal(syntax.prefix)} called){{0,{MAX_CALLS - 1}}}"
        if parallel
        else ""
    )
    closing = literal(syntax.closing) if syntax.closing else ""
    head = syntax.opening + syntax.prefix
    rules.append(f"calls: {literal(head)} called {more} {closing}")
    if required:
        return ["body: calls", *rules]
    if document is not None:
        return [f"body: {document} | calls", *rules]
    return [*_text_or_calls(syntax, head, more, closing, literal), *rules]


def _text_or_calls(syntax: CallSyntax, head: str, more: str, closing: str, literal: Literal) -> list[str]:
    """Free text, in which a call that begins is held to its syntax from its trigger on."""
    if not syntax.trigger:
        return [
            "body: PLAIN? | calls",
            rf"PLAIN: /(.|\n)+/ & ~/[ \n]*{_regex(head)}(.|\n)*/",
        ]
    if literal(syntax.trigger).startswith("<["):  # a control token never matches text
        return ["body: PLAIN? | PLAIN? calls", r"PLAIN: /(.|\n)+/"]
    rest = head[len(syntax.trigger) :]
    return [
        f"body: PLAIN? | leading {literal(rest) if rest else ''} called {more} {closing}",
        rf"PLAIN: /(.|\n)+/ & ~/(.|\n)*{_regex(syntax.trigger)}(.|\n)*/",
        rf"leading[suffix={literal(syntax.trigger)}]: /(.|\n)*/",
    ]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _optional(literal: Literal, text: str) -> str:
    return literal(text) if text else ""


def _regex(text: str) -> str:
    """`text` inside a Lark regex, which ends at a slash."""
    return re.sub(r"([\\/.^$*+?{}\[\]()|])", r"\\\1", text).replace("\n", r"\n")
