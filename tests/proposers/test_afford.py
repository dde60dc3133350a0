"""Whether a network's draft is worth its passes."""

from __future__ import annotations

from atelico.speculation.draft import Draft
from atelico.speculation.governor import Governor, GovernorLimits, RequestGovernor
from atelico.speculation.pass_cost import DraftRows

LIMITS = GovernorLimits(yield_rounds=10_000)


def governor(
    *, seconds_per_draft: float, right: bool, limits: GovernorLimits = LIMITS
) -> tuple[Governor, RequestGovernor]:
    """One that has measured a pass of 10 ms, rows at a tenth of that, and a network that is always right or wrong."""
    found = Governor(limits)
    request = found.begin("mtp")
    for _ in range(60):
        for n in (0, 1, 2, 4):
            found.observe_pass(1, DraftRows(n), 0.010 + 0.001 * n)
        draft = Draft()
        draft.extend([1, 2, 3, 4], "mtp")
        found.observe_draft(request, draft, [1, 2, 3, 4, 5] if right else [9], 4)
        found.observe_drafting("mtp", 4, 4 * seconds_per_draft)
    return found, request


def test_cheap_passes_that_are_right_are_made_to_the_full() -> None:
    found, request = governor(seconds_per_draft=0.001, right=True)
    assert found.afford(request, "mtp", 4, 1) == 4


def test_passes_as_dear_as_the_models_own_are_not_made_even_if_right() -> None:
    found, request = governor(seconds_per_draft=0.010, right=True)
    assert found.afford(request, "mtp", 4, 1) == 0


def test_a_network_that_is_never_right_is_not_asked_but_now_and_then() -> None:
    found, request = governor(seconds_per_draft=0.001, right=False)
    asked = [found.afford(request, "mtp", 4, 1) for _ in range(200)]
    assert asked[0] == 0
    assert 0 < sum(n > 0 for n in asked) < 10
    assert max(asked) == 2


def test_a_resting_request_and_too_many_lanes_ask_nobody() -> None:
    found, request = governor(
        seconds_per_draft=0.001, right=True, limits=GovernorLimits(yield_rounds=10_000, max_lanes=2)
    )
    assert found.afford(request, "mtp", 4, 2) > 0
    assert found.afford(request, "mtp", 4, 3) == 0
    request.resting = "a test said so"
    assert found.afford(request, "mtp", 4, 1) == 0


def test_before_anything_is_measured_a_short_draft_is_tried() -> None:
    found = Governor(LIMITS)
    assert 0 < found.afford(found.begin("mtp"), "mtp", 2, 1) <= 2
