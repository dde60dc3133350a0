"""Thoughts, then JSON: the schema holds for the answer only, wherever in a draft the border lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atelico.grammar import CompiledGrammar, GrammarCompiler, GrammarVocabulary, Matcher
from atelico.protocol.request import JsonObjectFormat

Encode = Callable[[str], list[int]]
Allowed = Callable[[Any], set[int]]

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN, CLOSE = 5, 6  # control tokens of SmolLM2 that the special vocabulary spells <think> and </think>


@pytest.fixture(scope="module")
def special(vocabulary: GrammarVocabulary, encode: Encode) -> GrammarCompiler:
    """A model whose tags are control tokens."""
    pieces = list(vocabulary._pieces)
    pieces[OPEN], pieces[CLOSE] = b"<think>", b"</think>"
    tokenize = lambda raw: encode(raw.decode())  # noqa: E731
    return GrammarCompiler(GrammarVocabulary.build(pieces, range(17), sorted(vocabulary.eos_ids), 1, tokenize))


@pytest.fixture(params=["text tags", "control tags"])
def model(request: pytest.FixtureRequest, compiler: GrammarCompiler, special: GrammarCompiler, encode: Encode) -> Any:
    """(compile, tokens of a text) of a model with either kind of tags."""
    chosen = compiler if request.param == "text tags" else special

    def compiled(inside: bool, schema: Any = SCHEMA) -> CompiledGrammar:
        grammar = chosen.compile(JsonObjectFormat(schema=schema), thinking=("<think>", "</think>\n", inside))
        assert grammar is not None
        return grammar

    def tokens(text: str) -> list[int]:
        if chosen is compiler:
            return encode(text)
        ids: list[int] = []
        for part in text.replace("</think>", "\0c\0").replace("<think>", "\0o\0").split("\0"):
            ids += {"o": [OPEN], "c": [CLOSE]}.get(part) or (encode(part) if part else [])
        return ids

    return compiled, tokens


def after(matcher: Matcher, tokens: list[int]) -> Matcher | None:
    """`matcher` with `tokens` committed, or None where it refuses one."""
    for token in tokens:
        if matcher.legal_prefix([token]) == 0:
            return None
        matcher.consume(token)
    return matcher


@pytest.mark.parametrize(
    ("inside", "text", "whole"),
    [
        (False, '<think>hm, {"a": "no schema here"}\n</think>\n\n{"a": 1}', True),
        (False, '<think></think>{"a": 1}', True),
        (False, '{"a": 1}', True),
        (False, '\n{"a": 1}', True),
        (False, "<think>only thoughts", False),
        (True, 'so\n\nit goes</think>\n{"a": 1}', True),
        (True, '</think>{"a": 1}', True),
        (True, "thoughts without an end", False),
    ],
)
def test_thoughts_come_first_and_the_schema_holds_after_them(model: Any, inside: bool, text: str, whole: bool) -> None:
    compiled, tokens = model
    matcher = after(compiled(inside).matcher(), tokens(text))
    assert matcher is not None
    assert matcher.is_accepting == matcher.is_complete == whole


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        (False, '<think>x</think>{"a": "s"'),
        (False, "<think>x</think>Sure, here"),
        (False, "Sure"),
        (False, '<think>x</think>```json\n{"a'),
        (False, '{"a": 1}</think>'),
        (True, 'x</think>\n\n\n\n\n{"a"'),
    ],
)
def test_nothing_but_the_document_follows_the_thoughts(model: Any, inside: bool, text: str) -> None:
    compiled, tokens = model
    assert after(compiled(inside).matcher(), tokens(text)) is None


def test_the_border_may_lie_inside_a_draft(model: Any, allowed: Allowed) -> None:
    compiled, tokens = model
    start = tokens("<think>It is one.")
    draft = tokens(' Done.</think>\n{"a": 1')
    drafted, plain = after(compiled(False).matcher(), start), after(compiled(False).matcher(), start)
    assert drafted is not None
    assert plain is not None
    assert drafted.legal_prefix(draft) == len(draft)
    # What a language model would go on with after its thoughts is cut where the schema begins to hold.
    chatty = tokens(" Done.</think>\nHere you are: {")
    border = len(tokens(" Done.</think>\n"))
    assert drafted.legal_prefix(chatty) in (border, border - 1)
    rows = drafted.masks(draft)
    for i, token in enumerate(draft):
        assert np.array_equal(rows[i], plain.masks()[0])
        plain.consume(token)
    assert np.array_equal(rows[-1], plain.masks()[0])
    # The draft across the border left no trace.
    assert np.array_equal(drafted.masks()[0], rows[0])


def test_thoughts_are_not_restricted_by_the_schema(model: Any, vocabulary: GrammarVocabulary, allowed: Allowed) -> None:
    compiled, tokens = model
    matcher = after(compiled(True, {"type": "string", "pattern": "^[a-z]+$"}).matcher(), tokens("Let me see"))
    assert matcher is not None
    legal = allowed(matcher.masks()[0])
    assert len(legal) > vocabulary.n_tokens * 0.9
    assert not legal & vocabulary.eos_ids


def test_thoughts_have_an_end(
    model: Any, monkeypatch: pytest.MonkeyPatch, allowed: Allowed, compiler: GrammarCompiler
) -> None:
    monkeypatch.setattr("atelico.grammar.compiler._MAX_THOUGHT_CHARS", 20)
    compiled, tokens = model
    matcher = after(compiled(True).matcher(), tokens("a" * 20))
    assert matcher is not None
    close = tokens("</think>")
    draft = [*close, *tokens('{"')]
    assert matcher.legal_prefix(draft) == len(draft)
    assert matcher.legal_prefix(tokens("a")) == 0


def test_what_is_forced_can_cross_the_border(model: Any) -> None:
    compiled, tokens = model
    matcher = compiled(True, {"const": {"answer": "forty-two"}}).matcher()
    draft = tokens('x</think>{"')
    extended = matcher.extend(draft, 64)
    assert matcher.legal_prefix(extended) == len(extended)
    assert len(extended) > len(draft)
