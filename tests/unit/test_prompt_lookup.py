"""Prompt lookup against a naive scan of the whole context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from atelico.speculation.prompt_lookup import PromptLookup

TOKENS = st.lists(st.integers(0, 4), max_size=60)


def lookup(context: Sequence[int], ahead: Sequence[int] = (), budget: int = 5) -> list[int]:
    proposer = PromptLookup()
    proposer.observe(context)
    return proposer.propose(ahead, budget)


def scan(context: list[int], ahead: list[int], budget: int) -> list[int]:
    """The rule in words: what followed the latest occurrence of the last 3, else 2, tokens that has a follower."""
    tail = context + ahead
    for size in (3, 2):
        if len(tail) < size:
            continue
        for start in range(len(context) - size - 1, -1, -1):
            if context[start : start + size] == tail[-size:]:
                return context[start + size : start + size + budget]
    return []


@given(TOKENS, st.lists(st.integers(0, 4), max_size=4), st.integers(1, 16))
def test_the_index_finds_what_a_scan_of_the_context_finds(context: list[int], ahead: list[int], budget: int) -> None:
    assert lookup(context, ahead, budget) == scan(context, ahead, budget)


@given(TOKENS, st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_observing_in_rounds_is_observing_at_once(context: list[int], cuts: list[int]) -> None:
    proposer = PromptLookup()
    rest = context
    for size in cuts:
        proposer.observe(rest[:size])
        rest = rest[size:]
    proposer.observe(rest)
    assert proposer.propose([], 8) == lookup(context, budget=8)


@given(TOKENS, st.lists(st.integers(0, 4), max_size=4))
def test_proposing_leaves_no_trace(context: list[int], ahead: list[int]) -> None:
    proposer = PromptLookup()
    proposer.observe(context)
    first = proposer.propose([], 5)
    proposer.propose(ahead, 5).append(99)
    assert proposer.propose([], 5) == first


def test_three_tokens_win_over_two() -> None:
    #        1 2 3 -> 7      the later 2 3 -> 8
    assert lookup([1, 2, 3, 7, 0, 2, 3, 8, 1, 2, 3])[0] == 7


def test_two_tokens_do_where_three_are_unknown() -> None:
    assert lookup([5, 6, 9, 4, 5, 6], budget=1) == [9]


def test_of_several_occurrences_the_latest_is_copied() -> None:
    assert lookup([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], budget=1) == [8]


def test_the_end_of_the_context_never_finds_itself() -> None:
    assert lookup([1, 2, 3]) == []
    assert lookup([1, 2]) == []
    assert lookup([]) == []


def test_a_copy_ends_with_the_context() -> None:
    assert lookup([1, 2, 3, 1, 2], budget=16) == [3, 1, 2]


@dataclass
class Counted:
    n: int = 0


def test_the_cost_per_token_does_not_grow_with_the_context() -> None:
    def operations(n_context: int) -> int:
        """Tokens that the index reads or writes for 100 more tokens."""
        counted = Counted()

        class Counting(dict[tuple[int, ...], int]):
            def __setitem__(self, key: tuple[int, ...], value: int) -> None:
                counted.n += len(key)
                super().__setitem__(key, value)

            def get(self, key: tuple[int, ...], default: int | None = None) -> int | None:  # type: ignore[override]
                counted.n += len(key)
                return super().get(key, default)

        class Slices(list[int]):
            def __getitem__(self, index: slice | int) -> list[int] | int:  # type: ignore[override]
                found = super().__getitem__(index)
                counted.n += len(found) if isinstance(found, list) else 1
                return found

        proposer = PromptLookup()
        proposer._after, proposer._context = Counting(), Slices()
        proposer.observe([i * i % 251 for i in range(n_context)])
        counted.n = 0
        for token in range(100):
            proposer.observe([token])
            proposer.propose([], 5)
        return counted.n

    assert operations(512) > 0
    assert operations(8_192) <= operations(512) * 1.1
