"""With llama.cpp's kernels everything still runs: asked for, or because ours cannot be hooked in.

A process keeps the kernels of its first engine, so each of these has a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atelico import EngineConfig
from atelico.config import load_config
from atelico.errors import ConfigError

TESTS = Path(__file__).parents[1]
ANSWER = """
import logging
from atelico import Engine, EngineConfig, _native
from atelico.runtime import kernels

logging.basicConfig(format="%(message)s")
{before}
with Engine(EngineConfig(n_ctx=512, n_threads=1, kernels="{kind}")) as engine:
    answer = engine.chat_completion(
        {{
            "model": "SmolLM2-135M-Instruct",
            "messages": [{{"role": "user", "content": "Say hello to the miller."}}],
            "max_tokens": 16,
            "temperature": 0,
            "speculative": {{"proposer": "prompt_lookup"}},
        }}
    )
    assert answer.usage.completion_tokens > 1
print(kernels.in_use())
"""
BROKEN = """
def broken(*_arguments):
    raise RuntimeError("the seam is not visible")

_native.install_kernels = broken
"""


def child(kind: str, before: str = "") -> subprocess.CompletedProcess[str]:
    script = ANSWER.format(kind=kind, before=before)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)


def test_a_process_can_ask_for_llama_cpp_s_kernels() -> None:
    done = child("llama.cpp")
    assert done.stdout.strip() == "llama.cpp"


def test_where_ours_cannot_be_hooked_in_one_line_says_so() -> None:
    done = child("own", BROKEN)
    assert done.stdout.strip() == "llama.cpp"
    assert done.stderr.count("the seam is not visible") == 1


def test_ours_are_the_default_and_named() -> None:
    assert child("own").stdout.startswith("own (")


def test_the_environment_names_the_kernels() -> None:
    assert EngineConfig().kernels == "own"
    assert load_config(environ={"ATELICO_KERNELS": "llama.cpp"}).kernels == "llama.cpp"
    with pytest.raises(ConfigError, match="ATELICO_KERNELS"):
        load_config(environ={"ATELICO_KERNELS": "mine"})


@pytest.mark.skipif(os.environ.get("ATELICO_KERNELS") == "llama.cpp", reason="this is the child")
def test_the_guard_of_llama_cpp_s_kernels_still_holds() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "near_tie",
            "exactness/test_kinds_of_memory.py",
        ],
        cwd=TESTS,
        env={**os.environ, "ATELICO_KERNELS": "llama.cpp"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
