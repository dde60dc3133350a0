"""The SmolLM2 vocabulary, read once per session, and a few verbs that the grammar tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

os.environ.setdefault("GOMP_SPINCOUNT", "500")
from benchmarks.schemas import Encode, load_vocabulary, spelled

from atelico.grammar import CompiledGrammar, GrammarCompiler, GrammarVocabulary, Matcher
from atelico.protocol.request import JsonSchema, JsonSchemaFormat

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def loaded() -> tuple[GrammarVocabulary, Encode]:
    return load_vocabulary()


@pytest.fixture(scope="session")
def vocabulary(loaded: tuple[GrammarVocabulary, Encode]) -> GrammarVocabulary:
    return loaded[0]


@pytest.fixture(scope="session")
def encode(loaded: tuple[GrammarVocabulary, Encode]) -> Callable[[str], list[int]]:
    """The model's own tokens of a text."""
    return lambda text: loaded[1](text.encode())


@pytest.fixture(scope="session")
def compiler(vocabulary: GrammarVocabulary) -> GrammarCompiler:
    return GrammarCompiler(vocabulary)


@pytest.fixture(scope="session")
def compile_schema(compiler: GrammarCompiler) -> Callable[..., CompiledGrammar]:
    """Compiles a schema, strictly unless told otherwise."""

    def compile_it(schema: Any, *, strict: bool | None = True, **options: Any) -> CompiledGrammar:
        response_format = JsonSchemaFormat(json_schema=JsonSchema(name="npc", schema=schema, strict=strict))
        grammar = compiler.compile(response_format, **options)
        assert grammar is not None
        return grammar

    return compile_it


@pytest.fixture(scope="session")
def accepts(encode: Callable[[str], list[int]]) -> Callable[[CompiledGrammar, str], bool]:
    """Whether a text, in our spelling, is a whole answer under a grammar."""

    def accepts_it(grammar: CompiledGrammar, text: str) -> bool:
        matcher = grammar.matcher()
        for token in encode(spelled(text)):
            matcher.masks()
            if matcher.legal_prefix([token]) == 0:
                return False
            matcher.consume(token)
        return matcher.is_accepting

    return accepts_it


@pytest.fixture(scope="session")
def allowed() -> Callable[[Any], set[int]]:
    """The token ids in a mask row."""
    import numpy as np

    return lambda row: set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


@pytest.fixture
def at(compile_schema: Callable[..., CompiledGrammar], encode: Callable[[str], list[int]]) -> Callable[..., Matcher]:
    """A matcher of a schema after a text."""

    def matcher_at(schema: Any, text: str = "", **options: Any) -> Matcher:
        matcher = compile_schema(schema, **options).matcher()
        for token in encode(text):
            matcher.consume(token)
        return matcher

    return matcher_at
