"""Grammars over SmolLM2's vocabulary, which is read once."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("GOMP_SPINCOUNT", "500")
from benchmarks.schemas import load_vocabulary

from atelico.grammar import CompiledGrammar, GrammarCompiler, GrammarVocabulary
from atelico.protocol.request import JsonSchema, JsonSchemaFormat
from support.babble import Compile, Text


@pytest.fixture(scope="session")
def vocabulary() -> GrammarVocabulary:
    return load_vocabulary()[0]


@pytest.fixture(scope="session")
def compile_schema(vocabulary: GrammarVocabulary) -> Compile:
    compiler = GrammarCompiler(vocabulary)

    def compiled(schema: Any, **options: Any) -> CompiledGrammar:
        wanted = JsonSchemaFormat(json_schema=JsonSchema(name="answer", schema=schema))
        grammar = compiler.compile(wanted, **options)
        assert grammar is not None
        return grammar

    return compiled


@pytest.fixture(scope="session")
def text(vocabulary: GrammarVocabulary) -> Text:
    """What tokens spell."""
    return lambda tokens: b"".join(vocabulary.piece(token) for token in tokens).decode(errors="replace")
