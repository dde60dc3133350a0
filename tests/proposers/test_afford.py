"""Whether a network's draft is worth its passes."""

from __future__ import annotations

from atelico.speculation.draft import Draft, Network
from atelico.speculation.governor import Governor, GovernorLimits, RequestGovernor
from atelico.speculation.pass_cost import DraftRows

CHEAP = Network("mtp", expected_cost=0.25)
LIMITS = GovernorLimits(yield_rounds=10_000)


def governor(
    *, seconds_per_draft: float, right: bool, limits: GovernorLimits = LIMITS
) -> tuple[Governor, RequestGovernor]:
    """One that has measured a pass of 10 ms, rows at a tenth of that, and a network that is always right or wrong."""
    found = Governor(limits)
    request = found.begin("mtp")
    for _ in range(60):
        for n_lanes in (1, 2, 3):
            for n in (0, 1, 2, 4):
                found.observe_pass(n_lanes, DraftRows(n), 0.010 + 0.001 * n)
        draft = Draft()
        draft.extend([1, 2, 3, 4], "mtp")
        found.observe_draft(request, draft, [1, 2, 3, 4, 5] if right else [9], 4)
        found.observe_drafting("mtp", 4, 4 * seconds_per_draft)
    return found, request


def test_cheap_passes_that_are_right_are_made_to_the_full() -> None:
    found, request = governor(seconds_per_draft=0.001, right=True)
    assert found.afford(request, CHEAP, 4, 1) == 4


def test_passes_as_dear_as_the_models_own_are_not_made_even_if_right() -> None:
    found, request = governor(seconds_per_draft=0.010, right=True)
    assert found.afford(request, CHEAP, 4, 1) == 0


def test_a_network_that_is_never_right_is_not_asked_but_now_and_then() -> None:
    found, request = governor(seconds_per_draft=0.001, right=False)
    asked = [found.afford(request, CHEAP, 4, 1) for _ in range(200)]
    assert asked[0] == 0
    assert 0 < sum(n > 0 for n in asked) < 10
    assert max(asked) == 2


def test_a_resting_request_and_too_many_lanes_ask_nobody() -> None:
    found, request = governor(
        seconds_per_draft=0.001, right=True, limits=GovernorLimits(yield_rounds=10_000, max_lanes=2)
    )
    assert found.afford(request, CHEAP, 4, 2) > 0
    assert found.afford(request, CHEAP, 4, 3) == 0
    request.resting = "a test said so"
    assert found.afford(request, CHEAP, 4, 1) == 0


def test_the_first_draft_waits_for_passes_to_compare_it_with_and_is_short() -> None:
    found = Governor(LIMITS)
    request = found.begin("mtp")
    assert found.afford(request, CHEAP, 2, 1) == 0
    for _ in range(3):
        found.observe_pass(1, DraftRows(), 0.010)
    assert 0 < found.afford(request, CHEAP, 2, 1) <= 2


def test_a_network_as_dear_as_the_model_is_never_tried() -> None:
    found = Governor(LIMITS)
    request = found.begin("draft_model")
    for _ in range(2000):
        found.observe_pass(1, DraftRows(), 0.010)
        assert found.afford(request, Network("draft", expected_cost=1.0), 4, 1) == 0
