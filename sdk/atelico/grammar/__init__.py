"""Structured output: from a request's `response_format` to per-token masks.

The only package that imports llguidance. It knows nothing of llama.cpp: the runtime hands over the vocabulary.
"""

from atelico.grammar.compiler import CompiledGrammar, GrammarCompiler
from atelico.grammar.matcher import Matcher
from atelico.grammar.vocabulary import GrammarVocabulary

__all__ = ["CompiledGrammar", "GrammarCompiler", "GrammarVocabulary", "Matcher"]
