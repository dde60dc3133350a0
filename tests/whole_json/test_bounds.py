"""Parts to which a schema sets no bound are bounded; a bound that it sets is its own, however large."""

from __future__ import annotations

from typing import Any

import pytest

from atelico.grammar import GrammarVocabulary, Matcher
from atelico.grammar.extent import MAX_ITEMS, MAX_OPEN, MAX_STRING_CHARS, Bounds, Extent, Phase, Tags, bounds_of
from support.babble import Compile, Text, legal_tokens


def written(matcher: Matcher, vocabulary: GrammarVocabulary, text: str) -> Matcher:
    """`matcher` after `text`."""
    for i, token in enumerate(vocabulary.tokenizer.tokenize_str(text)):
        if i % 8 == 0:
            matcher.masks()
        matcher.consume(token)
    return matcher


def first_bytes(matcher: Matcher, vocabulary: GrammarVocabulary) -> set[bytes]:
    """What may come next, by its first byte."""
    return {vocabulary.piece(token)[:1] for token in legal_tokens(matcher)}


LONG = '"' + "ab " * (MAX_STRING_CHARS // 3 + 1)


def test_an_endless_string_can_only_end(compile_schema: Compile, vocabulary: GrammarVocabulary) -> None:
    matcher = written(compile_schema({"type": "string"}).matcher(), vocabulary, LONG)
    assert first_bytes(matcher, vocabulary) == {b'"'}


@pytest.mark.parametrize(
    ("schema", "bounded"),
    [({"type": "string", "maxLength": MAX_STRING_CHARS * 2}, True), ({"type": "string"}, False)],
    ids=["the schema's own bound", "bounds lifted"],
)
def test_a_string_may_go_on_where_it_is_allowed_to(
    compile_schema: Compile, vocabulary: GrammarVocabulary, schema: dict[str, Any], bounded: bool
) -> None:
    matcher = written(compile_schema(schema).matcher(bounded=bounded), vocabulary, LONG)
    assert b"a" in first_bytes(matcher, vocabulary)


def test_an_endless_array_can_only_end(compile_schema: Compile, vocabulary: GrammarVocabulary) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    items = "[" + ", ".join(["7"] * MAX_ITEMS)
    matcher = written(compile_schema(schema).matcher(), vocabulary, items)
    assert first_bytes(matcher, vocabulary) == {b"]"}
    named = compile_schema({**schema, "maxItems": MAX_ITEMS * 2}).matcher()
    assert b"," in first_bytes(written(named, vocabulary, items), vocabulary)


def test_no_token_ends_a_string_and_begins_one_item_too_many(
    compile_schema: Compile, vocabulary: GrammarVocabulary, text: Text
) -> None:
    items = "[" + ", ".join(['"a"'] * (MAX_ITEMS - 1)) + ', "a'
    schema = {"type": "array", "items": {"type": "string"}}
    matcher = written(compile_schema(schema).matcher(), vocabulary, items)
    assert not [token for token in legal_tokens(matcher) if '",' in text([token])]
    assert b'"' in first_bytes(matcher, vocabulary)


def test_endless_nesting_can_only_end(compile_schema: Compile, vocabulary: GrammarVocabulary, text: Text) -> None:
    matcher = written(compile_schema({"type": "array"}).matcher(), vocabulary, "[" * MAX_OPEN)
    assert not [token for token in legal_tokens(matcher) if set(text([token])) & {"[", "{"}]


def test_what_the_schema_requires_is_never_refused(compile_schema: Compile, vocabulary: GrammarVocabulary) -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(MAX_OPEN + 8):
        deep = {"type": "array", "minItems": 1, "maxItems": 1, "items": deep}
    matcher = written(compile_schema(deep).matcher(), vocabulary, "[" * (MAX_OPEN + 4))
    assert first_bytes(matcher, vocabulary) == {b"["}


def test_a_draft_meets_the_bounds_that_its_own_tokens_reach(
    compile_schema: Compile, vocabulary: GrammarVocabulary
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    matcher = written(compile_schema(schema).matcher(), vocabulary, "[" + ", ".join(["7"] * (MAX_ITEMS - 1)))
    draft = vocabulary.tokenizer.tokenize_str(", 7")
    rows = matcher.masks(draft).copy()
    for token in draft:
        matcher.consume(token)
    assert (rows[-1] == matcher.masks()[0]).all()
    assert first_bytes(matcher, vocabulary) == {b"]"}


def test_sizes_that_a_schema_names_lift_the_bounds() -> None:
    assert bounds_of({"type": "string"}) == Bounds()
    schema = {"properties": {"a": {"maxLength": 9_000}, "b": {"items": {"minItems": 1_000}}}}
    assert bounds_of(schema) == Bounds(string_chars=9_000, items=1_000)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_a_place_does_not_depend_on_how_the_text_is_cut(step: int) -> None:
    raw = '<think>a [b "c</think>\n{"k\\"ey": [1, "x, y", {"é": [[], 2'.encode()
    place = Extent.at_start(Tags(b"<think>", b"</think>"), inside=False)
    for start in range(0, len(raw), step):
        place = place.after(raw[start : start + step])
    assert place.phase is Phase.DOCUMENT
    assert place.open == (-1, 2, -1, 1)
    assert not place.in_string


def test_characters_of_a_string_are_counted_and_not_its_bytes() -> None:
    place = Extent().after('"ééé'.encode())
    assert (place.in_string, place.n_chars) == (True, 3)
