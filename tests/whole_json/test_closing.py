"""However little room there is, a document can be ended, and the way to its end is a short one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from atelico.decoding.closing import WINDOW, Closing
from atelico.grammar import CompiledGrammar, GrammarVocabulary
from support.babble import Compile, Text, babble

LEAF: dict[str, Any] = {"type": "object", "properties": {"v": {"type": "number"}}, "required": ["v"]}
SCHEMAS: dict[str, dict[str, Any]] = {
    "flat": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "note": {"type": "string"},
            "age": {"type": "integer", "minimum": 10},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "anything": {"type": "object"},
    "lists": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "array", "minItems": 2, "items": {"enum": ["sword", "shield", "long bow"]}},
    },
    "forms": {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "mail": {"type": "string", "format": "email"},
            "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
            "long": {"type": "string", "minLength": 40},
        },
        "required": ["day", "mail", "code", "long"],
        "additionalProperties": False,
    },
    "recursive": {
        "$defs": {
            "node": {
                "anyOf": [
                    {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}, "required": ["child"]},
                    LEAF,
                ]
            }
        },
        "$ref": "#/$defs/node",
    },
    "number": {"type": "number"},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_shortest_document_follows_the_schema(compile_schema: Compile, text: Text, name: str) -> None:
    shortest = compile_schema(SCHEMAS[name]).shortest(512)
    assert shortest is not None
    jsonschema.validate(json.loads(text(shortest)), SCHEMAS[name])


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"type": "object"}, "{}"),
        ({"type": "array", "items": {}}, "[]"),
        ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, "[0, 0]"),
        (SCHEMAS["flat"], '{"name": "", "age": 10}'),
        ({"enum": ["a rather long answer", "no"]}, '"no"'),
    ],
)
def test_nothing_optional_is_in_the_shortest_document(
    compile_schema: Compile, text: Text, schema: dict[str, Any], document: str
) -> None:
    shortest = compile_schema(schema).shortest(1)
    assert shortest is not None
    assert text(shortest).strip() == document


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_never_ends_is_closed_within_its_budget(
    compile_schema: Compile, vocabulary: GrammarVocabulary, text: Text, name: str, seed: int
) -> None:
    grammar = compile_schema(SCHEMAS[name])
    draw = random.Random(f"{name} {seed}")
    shortest = grammar.shortest(1)
    assert shortest is not None
    for budget in (len(shortest), len(shortest) + 1, len(shortest) + 7, len(shortest) + 25):
        written = written_by_babbling(grammar, vocabulary, draw, budget)
        assert len(written) <= budget
        jsonschema.validate(json.loads(text(written)), SCHEMAS[name])


def written_by_babbling(
    grammar: CompiledGrammar, vocabulary: GrammarVocabulary, draw: random.Random, budget: int
) -> list[int]:
    matcher, closing = grammar.matcher(), Closing(grammar.shortest(budget))
    written: list[int] = []
    while not matcher.is_complete and len(written) < budget:
        wanted = babble(matcher, vocabulary, draw)
        token = closing.choose(matcher, wanted, budget - len(written)) if wanted is not None else None
        if token is None:
            break
        matcher.consume(token)
        written.append(token)
    return written


def test_a_model_that_ends_in_time_is_left_alone(
    compile_schema: Compile, vocabulary: GrammarVocabulary, text: Text
) -> None:
    grammar = compile_schema(SCHEMAS["flat"])
    answer = vocabulary.tokenizer.tokenize_str('{"name": "Ada", "age": 36}')
    for spare in (1, 2, 20):
        matcher, closing = grammar.matcher(), Closing(grammar.shortest(len(answer) + spare))
        for i, token in enumerate(answer):
            assert closing.choose(matcher, token, len(answer) + spare - i) == token
            matcher.consume(token)
        assert matcher.is_complete
        assert not closing.closed_early


def test_a_long_budget_costs_no_search(compile_schema: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = compile_schema(SCHEMAS["flat"]).matcher()
    monkeypatch.setattr(type(matcher), "_search", refuse)
    assert Closing().choose(matcher, 0, WINDOW + 1) == 0


def refuse(*_arguments: object) -> None:
    raise AssertionError("searched")


@pytest.mark.parametrize("inside", [True, False])
def test_a_thought_is_closed_and_the_document_after_it(
    compile_schema: Compile, vocabulary: GrammarVocabulary, text: Text, inside: bool
) -> None:
    grammar = compile_schema(SCHEMAS["flat"], thinking=("<think>", "</think>", inside))
    thought = vocabulary.tokenizer.tokenize_str(("<think>" if not inside else "") + 'Who is "Ada"? {A poet, or ')
    shortest = grammar.shortest(64)
    assert shortest is not None
    budget = len(thought) + len(shortest) + 8
    matcher, closing = grammar.matcher(), Closing(shortest)
    written: list[int] = []
    more = vocabulary.tokenizer.tokenize_str(" perhaps")[0]
    while not matcher.is_complete:
        wanted = thought[len(written)] if len(written) < len(thought) else more
        if matcher.legal_prefix([wanted]) == 0:
            wanted = babble(matcher, vocabulary, random.Random(len(written))) or 0
        token = closing.choose(matcher, wanted, budget - len(written))
        assert token is not None
        matcher.consume(token)
        written.append(token)
    assert len(written) <= budget
    assert closing.closed_early
    _, _, document = text(written).partition("</think>")
    jsonschema.validate(json.loads(document), SCHEMAS["flat"])


def test_the_way_to_the_end_is_only_looked_up_never_taken(compile_schema: Compile) -> None:
    matcher = compile_schema(SCHEMAS["recursive"]).matcher()
    before = matcher.masks().copy()
    assert matcher.closing(4) is not None
    assert (matcher.masks() == before).all()


def test_an_illegal_token_has_no_way_to_the_end(compile_schema: Compile, vocabulary: GrammarVocabulary) -> None:
    matcher = compile_schema(SCHEMAS["flat"]).matcher()
    bracket = vocabulary.tokenizer.tokenize_str("]")[0]
    assert matcher.closing_after(bracket, [], 100) is None
    assert matcher.closing_after(vocabulary.n_tokens, [], 100) is None
    assert matcher.closing(100) is not None


def test_a_search_is_the_same_every_time(compile_schema: Callable[..., CompiledGrammar]) -> None:
    grammar = compile_schema(SCHEMAS["recursive"])
    assert grammar.matcher().closing(3) == grammar.matcher().closing(3)
