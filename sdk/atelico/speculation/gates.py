"""The static table of model and device pairs that cannot or should not speculate, each with its reason.

A gate never fails a request: it decodes plainly. The rows are from the engine this project follows (its documentation's
"when not to enable" table); what they veto by speed alone, the governor would find by measuring, later and per request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atelico.config import EngineConfig
from atelico.models.gguf import GgufInfo
from atelico.runtime import kernels

# Whose recurrent state llama.cpp can keep for the last few tokens (llm_arch_supports_rs_rollback). On the CPU taking
# back a rejected draft there leaves no trace, to the bit: tests/proposers/test_rollback.py shows it for lfm2,
# nemotron_h, qwen35 and qwen35moe; the others share their code.
ROLLBACK_ARCHITECTURES = frozenset(
    {
        "bailingmoe3",
        "deepseek4",
        "glm5-next",
        "kimi-k3",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
        "qwen4exp",
    }
)

_FLOATS = frozenset({"F32", "F16", "BF16"})
_ONE_BIT = frozenset({"IQ1_S", "IQ1_M", "TQ1_0", "Q1_0"})


@dataclass(frozen=True)
class Target:
    """What the gates look at: a loaded model on a device, and whether the request is under a schema.

    `exact`: whether some width of batch gives every row the bits it has alone, or nobody asks for that.
    `n_rollback`: tokens that recurrent memory can take back; None while there is no memory yet.
    """

    architecture: str
    name: str
    quantization: str
    device: str
    recurrent: bool
    batched_verify: bool
    exact: bool = True
    structured: bool = False
    n_rollback: int | None = None

    @staticmethod
    def of(info: GgufInfo, device: str, config: EngineConfig) -> Target:
        """As far as a file's header tells."""
        return Target(
            architecture=info.architecture,
            name=info.name,
            quantization=info.quantization,
            device=device,
            recurrent=info.is_recurrent or info.is_hybrid,
            batched_verify=not info.is_diffusion,
            exact=not config.exact or kernels.exact_rows(info.matrix_types, device) > 1,
        )


@dataclass(frozen=True)
class Gate:
    """One rule: a request whose target it `applies` to decodes plainly, for this `reason`."""

    name: str
    applies: Callable[[Target], bool]
    reason: str


def _rolls_back(target: Target) -> bool:
    """The recurrent pairs that record a state per drafted token and rewind exactly."""
    if target.device == "cpu":
        return target.architecture in ROLLBACK_ARCHITECTURES
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
        lambda t: t.architecture == "qwen35moe" and t.device != "cpu",
        "recurrent memory of qwen35moe cannot roll back a rejected draft",
    ),
    Gate(
        "nemotron-h",
        lambda t: t.architecture in ("nemotron_h", "nemotron_h_moe") and t.device != "cpu",
        "recurrent memory of Nemotron-H cannot roll back a rejected draft",
    ),
    Gate(
        "qwen35-float",
        lambda t: t.architecture == "qwen35" and t.quantization in _FLOATS and t.device != "cpu",
        "recurrent memory of a float qwen35 model cannot roll back a rejected draft",
    ),
    Gate(
        "recurrent-metal",
        lambda t: t.recurrent and t.device == "metal",
        "recurrent memory on Metal cannot roll back a rejected draft",
    ),
    Gate(
        "recurrent-cpu",
        lambda t: t.recurrent and t.device == "cpu" and not _rolls_back(t),
        "recurrent memory of this architecture on the CPU cannot roll back a rejected draft",
    ),
    # Attention goes back to decide a near tie alone. Routers of experts are floats, and a router that rounds otherwise
    # may choose another expert: in tests a tiny qwen35moe wrote other texts, its dense kind never.
    Gate(
        "recurrent-cpu-floats",
        lambda t: t.recurrent and t.device == "cpu" and not t.exact,
        "recurrent memory cannot go back to decide a near tie, as matrices of floats make it necessary",
    ),
    Gate(
        "recurrent-other",
        lambda t: t.recurrent and not _rolls_back(t),
        "the recurrent memory of this model cannot roll back a rejected draft",
    ),
    Gate(
        "recurrent-no-states",
        lambda t: t.recurrent and t.n_rollback == 0,
        "recurrent memory that keeps no earlier states (spec_rollback) cannot roll back a rejected draft",
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
