"""Prompt lookup, and the automaton below it, against naive scans of the whole context."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from atelico.speculation.prompt_lookup import PromptLookup
from atelico.speculation.suffix_automaton import SuffixAutomaton

TOKENS = st.lists(st.integers(0, 4), max_size=60)
AHEAD = st.lists(st.integers(0, 4), max_size=4)


def lookup(context: Sequence[int], ahead: Sequence[int] = (), budget: int = 5) -> list[int]:
    return proposer_for(context).propose(ahead, budget)


def proposer_for(context: Sequence[int]) -> PromptLookup:
    proposer = PromptLookup()
    proposer.observe(context)
    return proposer


def followers(context: Sequence[int], end: Sequence[int]) -> list[int]:
    """What came after each occurrence of `end` in `context`, in order."""
    n = len(end)
    return [context[i + n] for i in range(len(context) - n) if list(context[i : i + n]) == list(end)]


def longest_match(context: list[int], ahead: list[int]) -> int:
    """Length of the longest end of context and `ahead` that something has followed in the context."""
    text = context + ahead
    return max((n for n in range(1, len(text) + 1) if followers(context, text[-n:])), default=0)


@given(TOKENS, AHEAD)
def test_the_match_is_the_longest_end_of_the_context_that_occurred_before(context: list[int], ahead: list[int]) -> None:
    proposer = proposer_for(context)
    proposer.propose(ahead, 5)
    assert proposer.match == longest_match(context, ahead)


@given(TOKENS, AHEAD, st.integers(1, 16))
def test_a_draft_begins_with_what_has_followed_the_match(context: list[int], ahead: list[int], budget: int) -> None:
    guess = lookup(context, ahead, budget)
    match = longest_match(context, ahead)
    assert len(guess) <= min(budget, match)
    if match < 2:
        assert guess == []
    elif guess:
        assert guess[0] in followers(context, (context + ahead)[-match:])


@given(TOKENS, st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_observing_in_rounds_is_observing_at_once(context: list[int], cuts: list[int]) -> None:
    proposer = PromptLookup()
    rest = context
    for size in cuts:
        proposer.observe(rest[:size])
        rest = rest[size:]
    proposer.observe(rest)
    assert proposer.propose([], 8) == lookup(context, budget=8)


@given(TOKENS, AHEAD)
def test_proposing_leaves_no_trace(context: list[int], ahead: list[int]) -> None:
    proposer = proposer_for(context)
    first = proposer.propose([], 5)
    proposer.propose(ahead, 5).append(99)
    assert proposer.propose([], 5) == first


def test_a_longer_match_wins_over_a_later_one() -> None:
    #        1 2 3 -> 7      the later 2 3 -> 8
    assert lookup([1, 2, 3, 7, 0, 2, 3, 8, 1, 2, 3])[0] == 7


def test_two_tokens_do_where_three_are_unknown() -> None:
    assert lookup([5, 6, 9, 4, 5, 6], budget=1) == [9]


def test_a_match_of_one_token_never_drafts() -> None:
    assert lookup([5, 9, 4, 5]) == []


def test_the_most_frequent_continuation_is_taken_and_the_latest_among_equals() -> None:
    assert lookup([1, 2, 3, 7, 1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], budget=1) == [7]
    assert lookup([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], budget=1) == [8]


def test_a_draft_is_at_most_as_long_as_its_match() -> None:
    passage = list(range(10, 40))
    assert lookup([*passage, 0, *passage[:2]], budget=16) == passage[2:4]
    assert lookup([*passage, 0, *passage[:6]], budget=16) == passage[6:12]


def test_the_end_of_the_context_never_finds_itself() -> None:
    assert lookup([1, 2, 3]) == []
    assert lookup([1, 2]) == []
    assert lookup([]) == []


def test_a_text_that_repeats_itself_is_continued_beyond_its_end() -> None:
    period = [1, 2, 3]
    assert lookup(period * 4, budget=9) == period * 3
    assert lookup([7] * 10, budget=9) == [7] * 9


def test_an_unlikely_path_ends_the_draft() -> None:
    # 1 2 is followed by 20 different tokens: each is a guess of one in twenty.
    assert lookup([token for i in range(20) for token in (1, 2, 10 + i)] + [1, 2]) == []


def test_a_long_context_is_forgotten_by_its_older_half() -> None:
    proposer = PromptLookup(max_indexed=40)
    proposer.observe([1, 2, 3, 4])
    proposer.observe([100 + i for i in range(50)])
    proposer.observe([1, 2, 3])
    assert proposer.propose([], 3) == []
    proposer.observe([140, 141, 142])
    assert proposer.propose([], 3) == [143, 144, 145]


@given(TOKENS)
def test_the_automaton_has_at_most_two_states_per_token(context: list[int]) -> None:
    text = SuffixAutomaton()
    for token in context:
        text.append(token)
    assert len(text) == len(context)
    assert len(text._next) <= max(2 * len(context), 1)


def test_repeating_one_token_costs_no_more_per_token_than_text_does() -> None:
    def seconds(tokens: list[int]) -> float:
        start = time.process_time()
        proposer_for(tokens).propose([], 16)
        return time.process_time() - start

    varied = [i * i % 251 for i in range(20_000)]
    # A walk over all ends of the text would take thousands of times longer.
    assert seconds([7] * 20_000) < 20 * seconds(varied) + 0.1
