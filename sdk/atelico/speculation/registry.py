"""Which proposer a name means, and with which draft length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from atelico.protocol import Speculative
from atelico.speculation.draft import Proposer
from atelico.speculation.lookahead import Lookahead, NgramPool
from atelico.speculation.prompt_lookup import PromptLookup

DEFAULT_K = 5

_ALIASES = {"pld": "prompt_lookup", "nextn": "mtp"}
_NOT_YET = ("mtp", "draft_model")


@dataclass
class Memories:
    """What proposers keep between the requests of one model."""

    pool: NgramPool = field(default_factory=NgramPool)


_BUILDERS: dict[str, Callable[[Memories, int], list[Proposer]]] = {
    "prompt_lookup": lambda _memories, _n_prompt: [PromptLookup()],
    "lookahead": lambda memories, n_prompt: [Lookahead(memories.pool, n_prompt)],
    "auto": lambda memories, n_prompt: [PromptLookup(), Lookahead(memories.pool, n_prompt)],
}


@dataclass(frozen=True)
class SpeculationPlan:
    """What a request asked for. `reason` says why it decodes plainly; None when it may speculate."""

    proposer: str | None
    k: int = 0
    reason: str | None = None


def plan(asked: Speculative | None, max_k: int) -> SpeculationPlan:
    """The plan for the request's `speculative` field; an unknown proposer decodes plainly, it is never an error."""
    if asked is None:
        return SpeculationPlan(None, reason="not requested")
    name = (asked.proposer or "none").lower()
    name = _ALIASES.get(name, name)
    if name == "none":
        return SpeculationPlan(name, reason="proposer 'none' was requested")
    if name in _NOT_YET:
        return SpeculationPlan(name, reason=f"proposer '{name}' is not available in this version")
    if name not in _BUILDERS:
        return SpeculationPlan(name, reason=f"unknown proposer '{asked.proposer}'")
    return SpeculationPlan(name, k=min(asked.k or DEFAULT_K, max_k))


def build(name: str, memories: Memories, n_prompt: int) -> list[Proposer]:
    """Fresh proposers for one request, in the order in which they are asked.

    Args:
        name: as in a plan without a reason.
        memories: those of the request's model.
        n_prompt: tokens of the prompt.
    """
    return _BUILDERS[name](memories, n_prompt)
