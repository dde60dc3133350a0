"""Which proposer a name means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atelico.protocol import Speculative
from atelico.speculation.registry import DEFAULT_K, Memories, build, plan


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("prompt_lookup", "prompt_lookup"),
        ("PLD", "prompt_lookup"),
        ("Prompt_Lookup", "prompt_lookup"),
        ("LOOKAHEAD", "lookahead"),
        ("Auto", "auto"),
    ],
)
def test_names_and_aliases_speculate_whatever_their_case(asked: str, name: str) -> None:
    found = plan(Speculative(proposer=asked), max_k=16)
    assert found.proposer == name
    assert found.reason is None
    assert build(name, Memories(), n_prompt=3)


@pytest.mark.parametrize("asked", ["mtp", "NextN", "draft_model", "Eagle3", "", " prompt_lookup", "none", "None", None])
def test_what_cannot_speculate_decodes_plainly_and_says_why(asked: str | None) -> None:
    found = plan(Speculative(proposer=asked), max_k=16)
    assert found.reason
    assert found.k == 0


def test_an_unknown_name_is_quoted_as_it_was_asked() -> None:
    assert plan(Speculative(proposer="Medusa"), 16).reason == "unknown proposer 'Medusa'"


def test_no_speculative_field_means_that_nothing_was_requested() -> None:
    found = plan(None, 16)
    assert (found.proposer, found.reason) == (None, "not requested")


def test_mtp_is_known_by_its_older_name() -> None:
    assert plan(Speculative(proposer="nextn"), 16) == plan(Speculative(proposer="MTP"), 16)


def test_k_has_a_default_and_is_clamped_to_the_engines_limit() -> None:
    assert plan(Speculative(proposer="pld"), 16).k == DEFAULT_K
    assert plan(Speculative(proposer="pld", k=3), 16).k == 3
    assert plan(Speculative(proposer="pld", k=1_000_000), 16).k == 16


@given(st.text(max_size=30))
def test_any_name_gives_a_plan(name: str) -> None:
    found = plan(Speculative(proposer=name), 16)
    assert (found.reason is None) == (found.k > 0)


def test_auto_asks_the_prompt_before_the_pool() -> None:
    assert [proposer.source for proposer in build("auto", Memories(), 0)] == ["prompt", "pool"]


def test_lookahead_shares_its_pool_between_requests_and_prompt_lookup_shares_nothing() -> None:
    memories = Memories()
    (first,), (second,) = build("lookahead", memories, 0), build("lookahead", memories, 0)
    first.observe([1, 2, 3, 4])
    second.observe([1, 2])
    assert second.propose([], 2) == [3, 4]
    (first,), (second,) = build("prompt_lookup", memories, 0), build("prompt_lookup", memories, 0)
    first.observe([1, 2, 3, 4])
    second.observe([1, 2])
    assert second.propose([], 2) == []
