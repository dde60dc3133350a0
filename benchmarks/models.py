"""The model files the benchmarks run on: those of pip packages, and what is made once into build/."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "500")

import llama_cpp
from tests.support.tiny_models import write_tiny

from atelico.config import EngineConfig
from atelico.engine import Engine

FOLDER = Path(__file__).parents[1] / "build" / "bench-models"

Q4_1, Q4_0, Q4_K_M, GEMMA = "SmolLM2 Q4_1", "SmolLM2 Q4_0", "SmolLM2 Q4_K_M", "Gemma 3 270M Q4_K_M"
ALL = (Q4_1, Q4_0, Q4_K_M, GEMMA)
# On these the rivals run too.
MAIN = (Q4_K_M, GEMMA)
# No small model with a NextN head exists: random weights that recite some words, with recurrent and attention layers.
HEAD = "tiny qwen35 Q8_0 with a NextN head"

_PACKAGED = {Q4_1: "SmolLM2-135M-Instruct", GEMMA: "gemma-3-270m"}
_REQUANTISED = {Q4_0: llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, Q4_K_M: llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M}


def model_file(name: str) -> str:
    """The path of a model, made where it is not there yet.

    Raises:
        ModelNotFoundError: the pip package with the model is not installed.
    """
    if name in _PACKAGED:
        with Engine(EngineConfig()) as engine:
            return str(engine.resolve(_PACKAGED[name]).path)
    target = FOLDER / f"{name.replace(' ', '-')}.gguf"
    if not target.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_suffix(f".{os.getpid()}")
        if name == HEAD:
            write_tiny("qwen35", unfinished, noise=0.5, seed=2, head="aligned", quantised=True)
        else:
            _requantise(model_file(Q4_1), unfinished, _REQUANTISED[name])
        unfinished.replace(target)
    return str(target)


def _requantise(source: str, target: Path, kind: int) -> None:
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = kind
    parameters.allow_requantize = True
    parameters.nthread = 1
    if llama_cpp.llama_model_quantize(source.encode(), str(target).encode(), parameters) != 0:
        raise RuntimeError(f"{source} could not be requantised")
