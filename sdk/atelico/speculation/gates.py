"""The static table of model and device pairs that cannot or should not speculate, each with its reason.

A gate never fails a request: it decodes plainly. The rows are from the engine this project follows (its documentation's
"when not to enable" table); what they veto by speed alone, the governor would find by measuring, later and per request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_FLOATS = frozenset({"F32", "F16", "BF16"})
_ONE_BIT = frozenset({"IQ1_S", "IQ1_M", "TQ1_0", "Q1_0"})


@dataclass(frozen=True)
class Target:
    """What the gates look at: a loaded model on a device, and whether the request is under a schema."""

    architecture: str
    name: str
    quantization: str
    device: str
    recurrent: bool
    batched_verify: bool
    structured: bool = False


@dataclass(frozen=True)
class Gate:
    """One rule: a request whose target it `applies` to decodes plainly, for this `reason`."""

    name: str
    applies: Callable[[Target], bool]
    reason: str


def _has_rollback_slots(target: Target) -> bool:
    """The one recurrent pair that records a state per drafted token and rewinds exactly."""
    return target.architecture == "qwen35" and target.quantization not in _FLOATS and target.device == "cuda"


GATES: tuple[Gate, ...] = (
    Gate(
        "no-batched-verify-structured",
        lambda t: t.structured and not t.batched_verify,
        "structured output needs batched verify, which this model has not",
    ),
    Gate(
        "no-batched-verify",
        lambda t: not t.batched_verify,
        "this model has no batched verify",
    ),
    Gate(
        "qwen35moe",
        lambda t: t.architecture == "qwen35moe",
        "recurrent memory of qwen35moe cannot roll back a rejected draft",
    ),
    Gate(
        "nemotron-h",
        lambda t: t.architecture in ("nemotron_h", "nemotron_h_moe"),
        "recurrent memory of Nemotron-H cannot roll back a rejected draft",
    ),
    Gate(
        "qwen35-float",
        lambda t: t.architecture == "qwen35" and t.quantization in _FLOATS,
        "recurrent memory of a float qwen35 model cannot roll back a rejected draft",
    ),
    Gate(
        "recurrent-metal",
        lambda t: t.recurrent and t.device == "metal",
        "recurrent memory on Metal cannot roll back a rejected draft",
    ),
    Gate(
        "recurrent-cpu",
        lambda t: t.recurrent and t.device == "cpu",
        "recurrent memory on the CPU cannot roll back a rejected draft",
    ),
    Gate(
        "recurrent-other",
        lambda t: t.recurrent and not _has_rollback_slots(t),
        "the recurrent memory of this model cannot roll back a rejected draft",
    ),
    Gate(
        "bonsai-1bit-metal",
        lambda t: "bonsai" in t.name.lower() and t.quantization in _ONE_BIT and t.device == "metal",
        "verifying drafts on 1-bit Bonsai is slower than plain decoding on Metal",
    ),
)


def veto(target: Target) -> str | None:
    """Why `target` must decode plainly, or None when it may speculate."""
    return next((gate.reason for gate in GATES if gate.applies(target)), None)
