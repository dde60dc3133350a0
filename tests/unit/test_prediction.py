"""The caller's prediction: followed from its start, left where the answer departs from it, found again after that."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from atelico.speculation.prediction import Prediction

TEXT = list(range(10, 40))


def after(answer: Sequence[int], expected: Sequence[int] = TEXT, n_prompt: int = 0) -> Prediction:
    proposer = Prediction(expected, n_prompt)
    proposer.observe(answer)
    return proposer


def test_the_draft_of_an_empty_answer_is_the_start_of_the_prediction() -> None:
    assert after([]).propose([], 4) == TEXT[:4]


def test_the_prompt_is_not_part_of_the_answer() -> None:
    proposer = after([1, 2, 3], n_prompt=3)
    assert proposer.propose([], 4) == TEXT[:4]
    proposer.observe(TEXT[:2])
    assert proposer.propose([], 4) == TEXT[2:6]


@given(st.integers(0, 30), st.integers(1, 40))
def test_an_answer_that_follows_the_prediction_is_drafted_to_its_end(n_answered: int, budget: int) -> None:
    guess = after(TEXT[:n_answered]).propose([], budget)
    assert guess == TEXT[n_answered : n_answered + min(budget, 8 + n_answered)]


def test_a_departure_stops_the_draft_and_two_equal_tokens_resume_it() -> None:
    proposer = after([*TEXT[:5], 99])
    assert proposer.propose([], 8) == []
    proposer.observe([TEXT[6]])  # 99 replaced TEXT[5]
    assert proposer.propose([], 8) == []
    proposer.observe([TEXT[7]])
    assert proposer.propose([], 8) == TEXT[8:10]
    proposer.observe(TEXT[8:10])
    assert proposer.propose([], 8) == TEXT[10:14]


def test_of_equally_good_places_the_next_one_to_come_is_taken() -> None:
    line = [1, 2]
    expected = [*line, 50, *line, 60, *line, 70]
    assert after([*line, 50, 9, *line], expected).propose([], 1) == [60]


def test_a_text_of_one_token_is_searched_only_near_the_last_place() -> None:
    proposer = after([99], [7] * 100_000)
    start = time.process_time()
    for _ in range(200):
        proposer.observe([99, 7, 7])
        assert proposer.propose([], 2) == [7, 7]
    assert time.process_time() - start < 5  # thousands of times as long if every place were looked at


def test_what_is_drafted_so_far_counts_as_answered() -> None:
    proposer = after(TEXT[:3])
    assert proposer.propose(TEXT[3:6], 2) == TEXT[6:8]
    assert proposer.propose([99], 2) == []
    assert proposer.propose([], 2) == TEXT[3:5]


@given(st.lists(st.integers(0, 3), max_size=20), st.lists(st.integers(0, 3), max_size=20), st.integers(1, 9))
def test_a_draft_is_part_of_the_prediction_and_leaves_no_trace(
    expected: list[int], answer: list[int], budget: int
) -> None:
    proposer = after(answer, expected)
    guess = proposer.propose([], budget)
    assert len(guess) <= budget
    assert any(expected[i : i + len(guess)] == guess for i in range(len(expected) + 1))
    assert proposer.propose([], budget) == guess
