"""Which proposer a name means, and with which draft length."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from atelico.protocol.request import Acceptance, Speculative
from atelico.speculation.draft import Proposer
from atelico.speculation.lookahead import Lookahead
from atelico.speculation.ngram_pool import NgramPool
from atelico.speculation.prediction import Prediction
from atelico.speculation.prompt_lookup import PromptLookup
from atelico.speculation.schema_memory import SchemaMemory, SchemaPools

logger = logging.getLogger(__name__)

DEFAULT_K = 5
# Each draft token of a NextN head costs a pass through a layer and the output matrix, and the head is made for one.
DEFAULT_K_MTP = 2

DrafterKind = Literal["mtp", "draft_model"]
# Why the model at hand has no drafter of a kind; None where it has one.
Missing = Callable[[DrafterKind], str | None]

_DRAFTERS: tuple[DrafterKind, ...] = ("mtp", "draft_model")
_ALIASES = {"pld": "prompt_lookup", "nextn": "mtp"}


@dataclass
class Memories:
    """What proposers keep between the requests of one model."""

    pool: NgramPool = field(default_factory=NgramPool)
    schemas: SchemaPools = field(default_factory=SchemaPools)


_BUILDERS: dict[str, Callable[[Memories, int], list[Proposer]]] = {
    "prompt_lookup": lambda _memories, _n_prompt: [PromptLookup()],
    "lookahead": lambda memories, n_prompt: [Lookahead(memories.pool, n_prompt)],
    "auto": lambda memories, n_prompt: [PromptLookup(), Lookahead(memories.pool, n_prompt)],
    "mtp": lambda _memories, _n_prompt: [],
    "draft_model": lambda _memories, _n_prompt: [],
    "prediction": lambda _memories, _n_prompt: [],
}


@dataclass(frozen=True)
class SpeculationPlan:
    """What a request asked for. `reason` says why it decodes plainly; None when it may speculate.

    `k`: guesses in a draft at most; `max_draft`: tokens in it, forced ones included.
    `drafter`: the network that drafts, besides or in place of what is looked up. `acceptance`: the rule for drafts.
    """

    proposer: str | None
    k: int = 0
    max_draft: int = 0
    reason: str | None = None
    drafter: DrafterKind | None = None
    acceptance: Acceptance = "exact"

    def failed(self) -> SpeculationPlan:
        """To decode plainly, since a proposer raised the exception that is being handled.

        That is a defect. It is logged, and costs speed but never the request.
        """
        logger.exception("proposer '%s' failed; the request goes on without speculation", self.proposer)
        return SpeculationPlan(self.proposer, reason=f"proposer '{self.proposer}' failed")


def _no_drafters(kind: DrafterKind) -> str:
    return f"there is no drafter of kind '{kind}'"


def plan(
    asked: Speculative | None, max_k: int, missing: Missing = _no_drafters, *, predicted: bool = False
) -> SpeculationPlan:
    """The plan for a request; an unknown proposer decodes plainly, it is never an error.

    Args:
        asked: the `speculative` field.
        max_k: draft tokens per round at most, whatever the field says.
        missing: asked only about drafters that the field leads to, since looking may load a file.
        predicted: whether the request has a `prediction`, which is drafted from unless proposer "none" says not to.
    """
    name = (asked.proposer or "none").lower() if asked is not None else None
    name = _ALIASES.get(name, name) if name is not None else None
    if name == "none":
        return SpeculationPlan(name, reason="proposer 'none' was requested")
    found = _plan(name, asked, max_k, missing)
    if found.reason is not None and predicted:
        k = min(asked.k if asked is not None and asked.k else max_k, max_k)
        return SpeculationPlan("prediction", k=k, max_draft=max_k, acceptance=_acceptance(asked))
    return found


def _plan(name: str | None, asked: Speculative | None, max_k: int, missing: Missing) -> SpeculationPlan:
    if asked is None or name is None:
        return SpeculationPlan(None, reason="not requested")
    if name not in _BUILDERS:
        return SpeculationPlan(name, reason=f"unknown proposer '{asked.proposer}'")
    drafter: DrafterKind | None = next((kind for kind in _DRAFTERS if kind == name), None)
    if drafter is not None:
        reason = missing(drafter)
        if reason is not None:
            return SpeculationPlan(name, reason=reason)
    elif name == "auto":
        drafter = next((kind for kind in _DRAFTERS if missing(kind) is None), None)
    k = asked.k or (DEFAULT_K_MTP if drafter == "mtp" else DEFAULT_K)
    return SpeculationPlan(name, k=min(k, max_k), max_draft=max_k, drafter=drafter, acceptance=_acceptance(asked))


def _acceptance(asked: Speculative | None) -> Acceptance:
    return (asked.acceptance if asked is not None else None) or "exact"


def build(
    name: str,
    memories: Memories,
    n_prompt: int,
    *,
    schema: str | None = None,
    prediction: Sequence[int] = (),
    drafted: bool = False,
) -> list[Proposer]:
    """Fresh proposers for one request; where matches are equally long, the first one's guess is taken.

    Args:
        name: as in a plan without a reason.
        memories: those of the request's model.
        n_prompt: tokens of the prompt.
        schema: the key of the answer's schema, whose memory is then drafted from, too.
        prediction: the tokens of the answer that the caller expects.
        drafted: whether a network drafts, so that "auto" needs no others.
    """
    proposers: list[Proposer] = [Prediction(prediction, n_prompt)] if prediction else []
    if schema is not None:
        proposers.append(SchemaMemory(memories.schemas.pool(schema), n_prompt))
    return proposers if drafted else proposers + _BUILDERS[name](memories, n_prompt)
