"""The composition of a draft, with a toy grammar whose language can be written down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from atelico.speculation.compose import DRAFTER_MATCH, compose
from atelico.speculation.draft import Distribution, Network


class ToyGrammar:
    """Accepts the documents given; a token is forced where all of them agree."""

    def __init__(self, *documents: Sequence[int]) -> None:
        self._documents = [list(document) for document in documents]

    def _after(self, draft: Sequence[int]) -> list[list[int]]:
        n = len(draft)
        return [d[n:] for d in self._documents if d[:n] == list(draft)]

    def forced(self) -> list[int]:
        return self.extend([], 1_000)

    def legal_prefix(self, draft: Sequence[int]) -> int:
        return max(n for n in range(len(draft) + 1) if self._after(draft[:n]))

    def extend(self, draft: Sequence[int], budget: int) -> list[int]:
        extended = list(draft)
        while len(extended) < budget:
            following = {d[0] if d else None for d in self._after(extended)}
            token = following.pop() if len(following) == 1 else None
            if token is None:
                break
            extended.append(token)
        return extended


class Fixed:
    """Proposes the same guess after any context, and remembers what it was asked."""

    name = source = "fixed"

    def __init__(self, *guess: int, match: int = 3, obedient: bool = True, once: bool = False) -> None:
        self.match = match
        self._guess = list(guess)
        self._obedient = obedient
        self._once = once
        self.asked: list[tuple[list[int], int]] = []

    def observe(self, tokens: Sequence[int]) -> None:
        """Nothing to learn."""

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        self.asked.append((list(ahead), budget))
        if self._once and len(self.asked) > 1:
            return []
        return self._guess[:budget] if self._obedient else list(self._guess)


DOCUMENTS = st.lists(st.lists(st.integers(0, 2), max_size=8), min_size=1, max_size=4)
GUESSES = st.lists(st.integers(0, 2), max_size=8)


@given(DOCUMENTS, GUESSES, st.integers(0, 10))
def test_a_draft_is_legal_within_budget_and_says_where_each_token_came_from(
    documents: list[list[int]], guess: list[int], budget: int
) -> None:
    grammar = ToyGrammar(*documents)
    draft = compose([Fixed(*guess)], grammar, budget)
    assert len(draft) <= budget
    assert len(draft.sources) == len(draft.tokens)
    assert grammar.legal_prefix(draft.tokens) == len(draft)
    assert set(draft.sources) <= {"grammar", "fixed"}


@given(DOCUMENTS, GUESSES, st.integers(1, 10))
def test_forced_tokens_are_never_given_up_for_a_guess(
    documents: list[list[int]], guess: list[int], budget: int
) -> None:
    grammar = ToyGrammar(*documents)
    forced = grammar.forced()[:budget]
    draft = compose([Fixed(*guess)], grammar, budget)
    assert draft.tokens[: len(forced)] == forced
    assert draft.sources[: len(forced)] == ["grammar"] * len(forced)


@given(GUESSES, st.integers(0, 10))
def test_without_a_grammar_the_draft_is_the_guess(guess: list[int], budget: int) -> None:
    draft = compose([Fixed(*guess, once=True)], None, budget)
    assert draft.tokens == guess[:budget]
    assert draft.sources == ["fixed"] * len(draft)


def test_the_draft_goes_forced_guess_forced() -> None:
    grammar = ToyGrammar([1, 2, 3, 4, 5], [1, 2, 9, 9, 9])
    draft = compose([Fixed(3)], grammar, 5)
    assert draft.tokens == [1, 2, 3, 4, 5]
    assert draft.sources == ["grammar", "grammar", "fixed", "grammar", "grammar"]


def test_a_guess_is_cut_at_the_first_illegal_token() -> None:
    grammar = ToyGrammar([1, 2, 7], [1, 3], [4])
    draft = compose([Fixed(1, 2, 5, 6, once=True)], grammar, 8)
    assert draft.tokens == [1, 2, 7]
    assert draft.sources == ["fixed", "fixed", "grammar"]


def test_a_proposer_is_asked_to_continue_the_forced_tokens_with_what_is_left() -> None:
    proposer = Fixed(5)
    compose([proposer], ToyGrammar([1, 2, 3], [1, 2, 4]), 6)
    assert proposer.asked[0] == ([1, 2], 4)


def test_a_budget_that_forced_tokens_use_up_leaves_nothing_to_guess() -> None:
    proposer = Fixed(5)
    draft = compose([proposer], ToyGrammar([1, 2, 3]), 2)
    assert draft.tokens == [1, 2]
    assert proposer.asked == []


def test_the_longest_match_decides_and_the_first_among_equals() -> None:
    silent, short, long, equal = Fixed(match=9), Fixed(1, match=2), Fixed(2, match=4), Fixed(3, match=4)
    assert compose([silent, short, long, equal], None, 1).tokens == [2]


def test_another_source_goes_on_where_the_first_one_ends_if_its_match_reaches_beyond_the_guess() -> None:
    class Follows:
        """Knows what comes after 1 2, from a match that includes them."""

        name = source = "follows"

        def __init__(self, match: int) -> None:
            self.match = match

        def observe(self, tokens: Sequence[int]) -> None:
            """Nothing to learn."""

        def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
            return [3, 4, 5][:budget] if list(ahead) == [1, 2] else []

    first = Fixed(1, 2, match=3, once=True)
    draft = compose([first, Follows(match=10)], None, 8)
    assert draft.tokens == [1, 2, 3, 4, 5]
    assert draft.sources == ["fixed"] * 2 + ["follows"] * 3
    assert draft.matches == [3, 3, 8, 8, 8]  # the two guessed tokens prove nothing
    first = Fixed(1, 2, match=3, once=True)
    assert compose([first, Follows(match=5)], None, 8).tokens == [1, 2, 3]
    first = Fixed(1, 2, match=3, once=True)
    assert compose([first, Follows(match=4)], None, 8).tokens == [1, 2]


class Drafting:
    """A drafter that always guesses the same, and remembers what it was asked."""

    network = Network("network", expected_cost=0.1)
    reads_hidden = False

    def __init__(self, *guess: int, draws: bool = False) -> None:
        self._guess = list(guess)
        self._draws = draws
        self.asked: list[tuple[list[int], int]] = []
        self.distributions: list[Distribution] = []

    def observe(self, tokens: Sequence[int]) -> None:
        """Nothing to learn."""

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        self.asked.append((list(ahead), budget))
        self.distributions = [np.full(10, 0.1) for _ in self._guess[:budget]] if self._draws else []
        return self._guess[:budget]

    def read(self, position: int, hidden: npt.NDArray[np.float32]) -> None:
        """Nothing to learn."""

    def close(self) -> None:
        """Nothing to free."""


def test_a_network_drafts_what_it_may_where_no_match_is_long() -> None:
    network = Drafting(7, 8, 9)
    draft = compose([Fixed(1, match=4)], None, 4, network, n_affordable=2)
    assert draft.tokens == [7, 8]
    assert draft.sources == ["network"] * 2
    assert network.asked == [([], 2)]


def test_a_long_match_spares_the_network_its_passes() -> None:
    network = Drafting(7, 8, 9)
    assert compose([Fixed(1, 2, match=DRAFTER_MATCH)], None, 2, network, n_affordable=2).tokens == [1, 2]
    assert network.asked == []


def test_a_network_that_is_not_affordable_is_not_asked() -> None:
    network = Drafting(7)
    assert compose([Fixed(1, match=2)], None, 1, network, n_affordable=0).tokens == [1]
    assert len(compose([], None, 4, network, n_affordable=0)) == 0
    assert network.asked == []


def test_a_network_goes_on_after_forced_tokens_and_is_cut_by_the_grammar() -> None:
    network = Drafting(3, 6)
    draft = compose([], ToyGrammar([1, 2, 3, 4, 5], [1, 2, 9, 9, 9]), 5, network, n_affordable=2)
    assert network.asked == [([1, 2], 2)]
    assert draft.tokens == [1, 2, 3, 4, 5]
    assert draft.sources == ["grammar", "grammar", "network", "grammar", "grammar"]


def test_a_proposer_that_overdraws_is_cut() -> None:
    assert compose([Fixed(1, 2, 3, obedient=False)], None, 2).tokens == [1, 2]


def test_no_budget_means_no_draft_and_no_question() -> None:
    proposer = Fixed(1)
    assert len(compose([proposer], ToyGrammar([1, 2]), 0)) == 0
    assert proposer.asked == []


def test_drawn_tokens_stay_whatever_the_grammar_says_and_end_the_draft() -> None:
    grammar = ToyGrammar([1, 2, 3, 4, 5], [1, 6, 9])
    for guess in ((2, 3), (2, 8), (8, 8)):  # legal, in part, not at all
        draft = compose([Fixed(4, match=5)], grammar, 8, Drafting(*guess, draws=True), n_affordable=2)
        assert draft.tokens == [1, *guess]
        assert draft.sources == ["grammar", "network", "network"]
        assert [shares is None for shares in draft.distributions] == [True, False, False]


def test_the_head_of_a_draft_keeps_what_its_tokens_were_drawn_from() -> None:
    draft = compose([], None, 4, Drafting(7, 8, 9, draws=True), n_affordable=3)
    assert [id(shares) for shares in draft.head(2).distributions] == [id(shares) for shares in draft.distributions[:2]]
