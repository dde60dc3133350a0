"""Every row of the gate table: what it stops, why, and what stays allowed beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atelico.speculation.gates import GATES, Target, veto

PLAIN = Target(
    architecture="llama", name="SmolLM2", quantization="Q4_1", device="cpu", recurrent=False, batched_verify=True
)
MAMBA = replace(PLAIN, architecture="mamba", name="Mamba", recurrent=True)
QWEN35 = replace(PLAIN, architecture="qwen35", name="Qwen3.5", quantization="Q4_K_M", recurrent=True)
BONSAI = replace(PLAIN, architecture="qwen3", name="Bonsai-8B", quantization="Q1_0", device="metal")

STOPPED = {
    "no-batched-verify-structured": (replace(PLAIN, batched_verify=False, structured=True), "structured output"),
    "no-batched-verify": (replace(PLAIN, batched_verify=False), "no batched verify"),
    "qwen35moe": (replace(QWEN35, architecture="qwen35moe", device="cuda"), "qwen35moe"),
    "nemotron-h": (replace(MAMBA, architecture="nemotron_h", device="cuda"), "Nemotron-H"),
    "qwen35-float": (replace(QWEN35, quantization="BF16", device="cuda"), "float qwen35"),
    "recurrent-metal": (replace(MAMBA, device="metal"), "recurrent memory on Metal cannot roll back"),
    "recurrent-cpu": (MAMBA, "on the CPU cannot roll back"),
    "recurrent-cpu-floats": (replace(QWEN35, quantization="F16", exact=False), "near tie"),
    "recurrent-other": (replace(MAMBA, device="vulkan"), "recurrent memory of this model cannot roll back"),
    "recurrent-no-states": (replace(QWEN35, n_rollback=0), "keeps no earlier states"),
    "bonsai-1bit-metal": (BONSAI, "1-bit Bonsai is slower"),
}


@pytest.mark.parametrize("name", STOPPED)
def test_each_row_stops_its_target_with_its_reason(name: str) -> None:
    target, words = STOPPED[name]
    reason = veto(target)
    assert reason == next(gate.reason for gate in GATES if gate.name == name)
    assert words in reason


def test_every_row_has_a_target_here() -> None:
    assert set(STOPPED) == {gate.name for gate in GATES}


@pytest.mark.parametrize(
    "target",
    [
        PLAIN,
        replace(PLAIN, structured=True),
        replace(PLAIN, device="metal"),
        replace(PLAIN, device="cuda", quantization="F16"),
        QWEN35,
        replace(QWEN35, n_rollback=4),
        replace(QWEN35, quantization="F16"),  # not exact, and nobody asks for it
        replace(QWEN35, architecture="qwen35moe"),
        replace(QWEN35, device="cuda", exact=False),
        replace(PLAIN, exact=False),
        replace(QWEN35, architecture="lfm2"),
        replace(QWEN35, architecture="nemotron_h"),
        replace(PLAIN, n_rollback=0),
        replace(QWEN35, device="cuda"),
        replace(QWEN35, device="cuda", structured=True),
        replace(BONSAI, device="cuda"),
        replace(BONSAI, device="cpu"),
        replace(BONSAI, quantization="Q4_K_M"),
        replace(PLAIN, architecture="qwen3moe", device="cuda"),
    ],
    ids=str,
)
def test_what_no_row_names_speculates(target: Target) -> None:
    assert veto(target) is None


@pytest.mark.parametrize("quantization", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("device", ["metal", "cuda", "vulkan"])
def test_a_float_qwen35_is_stopped_on_every_gpu(quantization: str, device: str) -> None:
    assert veto(replace(QWEN35, quantization=quantization, device=device)) is not None


@pytest.mark.parametrize("device", ["metal", "vulkan", "rocm"])
def test_a_quantised_qwen35_is_stopped_on_every_gpu_but_cuda(device: str) -> None:
    assert veto(replace(QWEN35, device=device)) is not None


def test_other_recurrent_models_are_stopped_on_cuda_too() -> None:
    assert veto(replace(MAMBA, device="cuda")) is not None
