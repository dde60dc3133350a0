"""Lookahead and its pool: bounded, least recently used first out, fed with output only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atelico.speculation.lookahead import Lookahead, NgramPool


@given(st.lists(st.integers(0, 9), max_size=200), st.integers(1, 20))
def test_the_pool_never_outgrows_its_capacity(tokens: list[int], capacity: int) -> None:
    pool = NgramPool(capacity)
    Lookahead(pool, n_prompt=0).observe(tokens)
    assert len(pool) <= capacity


def follower(pool: NgramPool, *tail: int) -> list[int]:
    """The token that the pool drafts after `tail`, if any; asking feeds nothing."""
    proposer = Lookahead(pool, n_prompt=len(tail))
    proposer.observe(tail)
    return proposer.propose([], 1)


def test_the_least_recently_used_ngram_goes_first() -> None:
    pool = NgramPool(2)
    pool.add((1, 2), 3)
    pool.add((4, 5), 6)
    assert follower(pool, 1, 2) == [3]  # used, so that (4, 5) is now the oldest
    pool.add((7, 8), 9)
    assert follower(pool, 4, 5) == []
    assert follower(pool, 1, 2) == [3]
    assert follower(pool, 7, 8) == [9]


def test_the_longest_known_ngram_decides() -> None:
    pool = NgramPool()
    pool.add((2, 3), 7)
    assert follower(pool, 1, 2, 3) == [7]
    pool.add((1, 2, 3), 8)
    assert follower(pool, 1, 2, 3) == [8]


def test_the_latest_follower_replaces_the_one_before() -> None:
    pool = NgramPool()
    pool.add((1, 2), 3)
    pool.add((1, 2), 4)
    assert follower(pool, 1, 2) == [4]
    assert len(pool) == 1


def test_a_prompt_feeds_nothing_but_gives_the_first_ngrams_their_context() -> None:
    pool = NgramPool()
    proposer = Lookahead(pool, n_prompt=4)
    proposer.observe([1, 2, 3, 4])
    assert len(pool) == 0
    proposer.observe([5])
    assert follower(pool, 2, 3, 4) == [5]
    assert follower(pool, 1, 2) == []


def test_what_one_request_wrote_drafts_for_the_next() -> None:
    pool = NgramPool()
    Lookahead(pool, n_prompt=0).observe([1, 2, 3, 4, 5, 6])
    second = Lookahead(pool, n_prompt=2)
    second.observe([1, 2])
    assert second.propose([], 3) == [3, 4, 5]
    assert second.propose([3], 2) == [4, 5]


def test_a_loop_in_the_pool_is_followed_only_as_far_as_the_budget() -> None:
    pool = NgramPool()
    proposer = Lookahead(pool, n_prompt=0)
    proposer.observe([1, 1, 1, 1])
    assert proposer.propose([], 7) == [1] * 7


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 8), st.integers(1, 8))
def test_proposing_adds_nothing_to_the_pool(tokens: list[int], n_prompt: int, budget: int) -> None:
    pool = NgramPool()
    proposer = Lookahead(pool, n_prompt)
    proposer.observe(tokens)
    n_known = len(pool)
    first = proposer.propose([], budget)
    assert len(first) <= budget
    assert proposer.propose([], budget) == first
    assert len(pool) == n_known
