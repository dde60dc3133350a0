"""Lookahead and schema memory, and their pools: bounded, least recently used first out, fed with output only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atelico.speculation.lookahead import Lookahead
from atelico.speculation.ngram_pool import LONGEST, NGRAM_SIZES, NgramPool
from atelico.speculation.schema_memory import ENTRIES_PER_SCHEMA, SchemaMemory, SchemaPools


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


def test_the_follower_seen_most_stays_and_a_single_one_is_replaced() -> None:
    pool = NgramPool()
    pool.add((1, 2), 3)
    pool.add((1, 2), 4)
    assert follower(pool, 1, 2) == [4]
    pool.add((1, 2), 4)
    pool.add((1, 2), 5)
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
    assert second.propose([], 2) == [3, 4]
    assert second.propose([3], 3) == [4, 5, 6]


def test_a_chain_is_at_most_as_long_as_its_first_ngram_unless_that_is_a_longest_one() -> None:
    pool = NgramPool()
    passage = list(range(10, 60))
    Lookahead(pool, n_prompt=0).observe(passage)
    for size in NGRAM_SIZES:
        guess, match = pool.chain(passage[:size], 20)
        assert match == size
        assert guess == passage[size : size + (20 if size == LONGEST else size)]


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


def test_a_schema_memory_drafts_from_the_first_token_of_an_answer() -> None:
    pools = SchemaPools()
    answer = [11, 12, 13, 14, 15, 16]
    first = SchemaMemory(pools.pool("sheet"), n_prompt=2)
    first.observe([1, 2])
    first.observe(answer[:3])
    first.observe(answer[3:])
    second = SchemaMemory(pools.pool("sheet"), n_prompt=3)
    second.observe([7, 8, 9])
    assert second.propose([], 6) == answer
    assert second.propose(answer[:2], 2) == answer[2:4]
    assert SchemaMemory(pools.pool("quest"), n_prompt=0).propose([], 6) == []


def test_a_schema_memory_skips_a_prompt_that_comes_in_parts() -> None:
    pools = SchemaPools()
    memory = SchemaMemory(pools.pool("sheet"), n_prompt=3)
    memory.observe([1, 2])
    memory.observe([3, 11])
    assert SchemaMemory(pools.pool("sheet"), n_prompt=0).propose([], 4) == [11]


@given(st.lists(st.sampled_from("abcde"), max_size=30))
def test_the_schemas_kept_are_the_ones_used_last(keys: list[str]) -> None:
    pools = SchemaPools(capacity=2)
    for key in keys:
        pools.pool(key).add((1, 2), ord(key))
    latest = list(dict.fromkeys(reversed(keys)))[:2]
    assert len(pools) == len(latest)
    assert all(pools.pool(key).follow([1, 2]) == (ord(key), 2) for key in latest)


def test_a_schema_memory_is_bounded() -> None:
    pools = SchemaPools()
    SchemaMemory(pools.pool("long"), n_prompt=0).observe([i * i for i in range(ENTRIES_PER_SCHEMA)])
    assert len(pools.pool("long")) == ENTRIES_PER_SCHEMA
