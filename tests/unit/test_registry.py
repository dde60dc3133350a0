"""Which proposer a name means."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atelico.protocol.request import Speculative
from atelico.speculation.registry import DEFAULT_K, Memories, SpeculationPlan, build, plan


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


def all_but(*kinds: str) -> Callable[[str], str | None]:
    """A model that has only the drafters of these kinds."""
    return lambda kind: None if kind in kinds else f"no {kind} here"


@pytest.mark.parametrize(
    ("there", "drafter", "k"),
    [(("mtp", "draft_model"), "mtp", 2), (("draft_model",), "draft_model", DEFAULT_K), ((), None, DEFAULT_K)],
)
def test_auto_takes_the_models_own_head_else_a_drafter_else_what_can_be_looked_up(
    there: tuple[str, ...], drafter: str | None, k: int
) -> None:
    found = plan(Speculative(proposer="auto"), 16, all_but(*there))
    assert (found.proposer, found.drafter, found.k, found.reason) == ("auto", drafter, k, None)
    assert bool(build("auto", Memories(), 0, drafted=drafter is not None)) == (drafter is None)


@pytest.mark.parametrize("kind", ["mtp", "draft_model"])
def test_a_drafter_is_used_where_it_is_and_missed_with_the_reason(kind: str) -> None:
    found = plan(Speculative(proposer=kind), 16, all_but(kind))
    assert (found.proposer, found.drafter, found.reason) == (kind, kind, None)
    assert found.k == (2 if kind == "mtp" else DEFAULT_K)
    assert plan(Speculative(proposer=kind, k=4), 16, all_but(kind)).k == 4
    assert plan(Speculative(proposer=kind), 16, all_but()).reason == f"no {kind} here"


def test_drafters_are_looked_for_only_where_they_were_asked_for() -> None:
    asked: list[str] = []
    for proposer in (None, "none", "pld", "lookahead", "Eagle3"):
        plan(Speculative(proposer=proposer), 16, lambda kind: asked.append(kind))
    assert asked == []


def test_the_rule_of_acceptance_is_exact_unless_the_request_says_otherwise() -> None:
    assert plan(Speculative(proposer="pld"), 16).acceptance == "exact"
    assert plan(Speculative(proposer="pld", acceptance="stochastic"), 16).acceptance == "stochastic"
    assert plan(Speculative(proposer="mtp", acceptance="stochastic"), 16, predicted=True).acceptance == "stochastic"
    assert plan(None, 16, predicted=True).acceptance == "exact"


def test_a_prediction_is_drafted_from_whatever_else_was_asked_for() -> None:
    assert plan(None, 16, predicted=True) == SpeculationPlan("prediction", k=16, max_draft=16)
    assert plan(Speculative(proposer="Medusa", k=3), 16, predicted=True) == SpeculationPlan(
        "prediction", k=3, max_draft=16
    )
    assert plan(Speculative(proposer="pld"), 16, predicted=True).proposer == "prompt_lookup"
    assert plan(Speculative(proposer="none"), 16, predicted=True).reason == "proposer 'none' was requested"
    for name in ("prediction", "prompt_lookup"):
        assert build(name, Memories(), 0, prediction=[1, 2])[0].source == "prediction"


def test_a_schema_brings_its_memory_with_every_proposer() -> None:
    for name in ("prompt_lookup", "lookahead", "auto", "mtp", "draft_model", "prediction"):
        sources = [proposer.source for proposer in build(name, Memories(), 0, schema="sheet")]
        assert sources.count("schema") == 1
        assert "schema" not in [proposer.source for proposer in build(name, Memories(), 0)]


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
