"""A model of a sort: it writes random legal tokens and never wants to end. No tests, no fixtures."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from atelico.grammar import CompiledGrammar, GrammarVocabulary, Matcher

Compile = Callable[..., CompiledGrammar]
Text = Callable[[list[int]], str]


def legal_tokens(matcher: Matcher) -> list[int]:
    """The tokens that the mask allows."""
    bits = np.unpackbits(matcher.masks()[0].view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def babble(matcher: Matcher, vocabulary: GrammarVocabulary, draw: random.Random) -> int | None:
    """A legal token that does not end the answer; None where there is no other."""
    legal = [token for token in legal_tokens(matcher) if token not in vocabulary.eos_ids]
    return draw.choice(legal) if legal else None
