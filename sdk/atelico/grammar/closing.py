"""The shortest way to end a structured answer: a search over tokens. Decides nothing; decoding/closing.py does.

A path is walked greedily, with closing tokens before all others, forced tokens taken as they come. Where the way found
is too long, other choices along it are tried (limited discrepancy search, Harvey and Ginsberg 1995) until it is short
enough or the allowance of nodes is used up. The allowance counts masks and not time, so the outcome is reproducible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from atelico.grammar.extent import Extent, Phase
from atelico.grammar.vocabulary import GrammarVocabulary

# Tokens of the longest way that is looked for.
MAX_CLOSING = 512
# The same token so often in a row leads nowhere: digits of a number, say.
_MAX_REPEATS = 32
# A recursion leads nowhere, either: containers that a way may open inside each other, at first and where that fails.
_DEPTHS = (3, 12, MAX_CLOSING)
# Of the allowance, a quarter and at least so much is spent on one way.
_MIN_NODES = 60
# Tokens tried at one place.
_N_CHOICES = 5

# Tokens in the order they are wanted, each group the longest first. In a string: its end, with as many brackets as one
# token has; the end of a key; the end of a value and the way to the next one.
_IN_STRING = (r'"[}\]]+', r'": ?(""|\[\]|\{\})[}\]]*', r'": ?["\[{]?', r'"', r'",? ?"?')
# In an object, where no bracket may follow: more keys are required.
_TO_NEXT_KEY = (r'", "', r'","', r'", ?')
# Between strings: brackets; empty values; short scalars; the way to the next value; openings; digits.
_BETWEEN = (
    r"[}\]]+",
    r' ?(""|\[\]|\{\})[}\]]*',
    r" ?0",
    r" ?1",
    r" ?(null|true|false)",
    r': ?(""|\[\]|\{\})[}\]]*',
    r": ?0",
    r': ?"',
    r": ?",
    r', ?"',
    r", ?",
    r' ?"',
    r' ?[\[{]+"',
    r" ?[\[{]+",
    r" ?[2-9]",
    r" ?",
    r" ?[-.]",
)
# Where a string has to have a form: characters that forms ask for.
_MARKS = (b"@", b":", b"-", b".", b"/", b"T", b"Z", b"+", b"_", b" ")


class ClosingTokens:
    """The tokens of a vocabulary in the order the search wants them."""

    def __init__(self, vocabulary: GrammarVocabulary) -> None:
        self._vocabulary = vocabulary
        pieces = [(piece, token) for token, piece in vocabulary.ordinary()]
        short = [(piece, token) for piece, token in pieces if len(piece) <= 12 and not piece[:1].isalpha()]
        short += [(piece, token) for piece, token in pieces if piece.strip() in (b"null", b"true", b"false")]
        self._in_string = _ranked(_IN_STRING, short)
        self._between = _ranked(_BETWEEN, short)
        self._to_next_key = _ranked(_TO_NEXT_KEY, short)
        by_piece = dict(pieces)
        self._marks = _ids([by_piece[mark] for mark in _MARKS if mark in by_piece])
        letters = [(piece, token) for piece, token in pieces if piece.isalnum() and len(piece) <= 16]
        letters.sort(key=lambda pair: (-len(pair[0]), pair[0]))
        singles = [(piece, token) for piece, token in letters if len(piece) == 1]
        self._words = _ids([token for _, token in letters])
        self._singles = _ids([token for _, token in sorted(singles)])

    def choices(self, mask: npt.NDArray[np.uint32], extent: Extent, last: bytes) -> list[int]:
        """The allowed tokens worth trying after `last`, the best first."""
        ranked = self._in_string if extent.in_string else self._between
        found = _allowed(mask, ranked)
        if extent.in_string and found and not extent.in_array and self._vocabulary.piece(found[0]) == b'"':
            found = _allowed(mask, self._to_next_key) + found
        if found:
            return list(dict.fromkeys(found))[:_N_CHOICES]
        marks, words, singles = (_allowed(mask, group) for group in (self._marks, self._words, self._singles))
        # A form alternates: letters or digits, then a mark. Letters and digits are taken in the longest token.
        ordered = [marks[:2], words[:1], singles[:1]] if last[-1:].isalnum() else [words[:1], marks[:2], singles[:1]]
        found = list(dict.fromkeys(token for group in (*ordered, singles[-1:]) for token in group))
        if not found:
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
            tokens = [int(token) for token in np.flatnonzero(bits)[:64]]
            tokens = [token for token in tokens if self._vocabulary.is_walkable(token)]
            found = sorted(tokens, key=lambda token: -len(self._vocabulary.piece(token)))
        return found[:_N_CHOICES]


@dataclass(frozen=True)
class _Fork:
    """A place on a way where other tokens were allowed."""

    engine: LLMatcher
    extent: Extent
    path: list[int]
    others: list[int]


class Search:
    """One search from one place. Uses copies of the engine only."""

    def __init__(self, vocabulary: GrammarVocabulary, tokens: ClosingTokens, close_tag: Sequence[int], n_nodes: int):
        """`close_tag`: the tokens that end a thought; `n_nodes`: masks it may compute."""
        self._vocabulary = vocabulary
        self._tokens = tokens
        self._close_tag = list(close_tag)
        self._n_nodes = n_nodes
        self._max_open = 0

    def shortest(self, engine: LLMatcher, extent: Extent, enough: int) -> list[int] | None:
        """A way to end the answer of at most `enough` tokens if one is found, else the shortest that is; None if none.

        Args:
            engine: where the way starts; left unchanged.
            extent: the same place.
            enough: stop looking for a shorter one from here on.
        """
        for depth in _DEPTHS:
            self._max_open = len(extent.open) + depth
            best = self._improved(engine, extent, enough)
            if best is not None:
                return best
        return None

    def _improved(self, engine: LLMatcher, extent: Extent, enough: int) -> list[int] | None:
        """As `shortest`, within `_max_open` open containers."""
        forks: list[_Fork] = []
        best = self._walk(engine.deep_copy(), extent, [], MAX_CLOSING, forks)
        while (best is None or len(best) > enough) and self._n_nodes > 0:
            better = self._elsewhere(forks, len(best) - 1 if best is not None else MAX_CLOSING)
            if better is None:
                break
            best, forks = better
        return best

    def _elsewhere(self, forks: Sequence[_Fork], limit: int) -> tuple[list[int], list[_Fork]] | None:
        """The first way within `limit` tokens that leaves another one at one of its `forks`; and its own forks."""
        for i, fork in enumerate(forks):
            for token in fork.others:
                if len(fork.path) >= limit or self._n_nodes <= 0:
                    return None
                copy, found = fork.engine.deep_copy(), list(forks[:i])
                if not copy.consume_token(token):
                    continue
                extent = fork.extent.after(self._vocabulary.piece(token))
                path = self._walk(copy, extent, [*fork.path, token], limit, found)
                if path is not None:
                    return path, found
        return None

    def _walk(
        self, engine: LLMatcher, extent: Extent, path: list[int], limit: int, forks: list[_Fork]
    ) -> list[int] | None:
        """The greedy way on from `path`; notes its forks. None where it comes to no end within `limit` tokens."""
        n_repeats, last_node = 0, self._n_nodes - max(_MIN_NODES, self._n_nodes // 4)
        while not engine.is_error() and len(path) <= limit:
            if engine.is_accepting():
                return path
            if n_repeats > _MAX_REPEATS or self._n_nodes <= max(last_node, 0) or len(extent.open) > self._max_open:
                break
            run = self._run(engine, extent)
            if not run:
                self._n_nodes -= 1
                mask = np.frombuffer(engine.compute_bitmask(), dtype=np.uint32)
                last = self._vocabulary.piece(path[-1]) if path else b""
                choices = self._tokens.choices(mask, extent, last)
                if not choices:
                    break
                run = choices[:1]
                if choices[1:]:
                    forks.append(_Fork(engine.deep_copy(), extent, path, choices[1:]))
                n_repeats = n_repeats + 1 if path and path[-1] == run[0] else 0
            if engine.try_consume_tokens(run) != len(run):
                break
            for token in run:
                extent = extent.after(self._vocabulary.piece(token))
            path = [*path, *run]
        return None

    def _run(self, engine: LLMatcher, extent: Extent) -> list[int]:
        """Tokens to take without a choice: the end of a thought, or what is forced."""
        if extent.phase is Phase.THOUGHT and engine.validate_tokens(self._close_tag) == len(self._close_tag):
            return self._close_tag
        run = []
        for token in engine.compute_ff_tokens():
            if not self._vocabulary.is_walkable(token):
                break
            run.append(token)
        return run


def _ranked(patterns: Sequence[str], pieces: Sequence[tuple[bytes, int]]) -> npt.NDArray[np.int64]:
    def ordered() -> Iterator[int]:
        for pattern in patterns:
            matching = [(piece, token) for piece, token in pieces if re.fullmatch(pattern.encode(), piece)]
            yield from (token for _, token in sorted(matching, key=_longest_first))

    return _ids(list(dict.fromkeys(ordered())))


def _longest_first(pair: tuple[bytes, int]) -> tuple[int, bool, int]:
    piece, token = pair
    return -len(piece.strip()), piece[:1] == b" ", token


def _ids(tokens: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.array(tokens, dtype=np.int64)


def _allowed(mask: npt.NDArray[np.uint32], tokens: npt.NDArray[np.int64]) -> list[int]:
    """Those of `tokens` that `mask` allows, in their order."""
    bits = mask[tokens >> 5] >> (tokens & 31).astype(np.uint32) & np.uint32(1)
    return [int(token) for token in tokens[bits.astype(bool)]]
