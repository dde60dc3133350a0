"""llama.cpp's kernels are compared with the processor before one of them runs."""

from __future__ import annotations

import llama_cpp
import pytest

from atelico.errors import ConfigError
from atelico.runtime.library import system_info
from atelico.runtime.processor import compiled_for, processor_flags, refuse_missing

MODERN = frozenset({"pni", "ssse3", "avx", "f16c", "fma", "avx2", "bmi2"})


def test_a_processor_with_everything_is_taken() -> None:
    refuse_missing(("sse3", "avx", "avx2"), MODERN)


def test_what_is_missing_is_named_with_a_way_out() -> None:
    with pytest.raises(ConfigError, match=r"AVX512, AVX512_VNNI") as caught:
        refuse_missing(("avx2", "avx512", "avx512_vnni"), MODERN | {"avx512f"})
    assert "AVX2" not in str(caught.value)
    assert caught.value.code == "unsupported_processor" and "--native" in caught.value.hint


def test_a_processor_that_cannot_be_asked_is_not_refused() -> None:
    refuse_missing(("avx512",), frozenset())


def test_this_machine_runs_what_was_compiled_on_it() -> None:
    library = llama_cpp.llama_cpp._lib
    if not hasattr(library, "ggml_cpu_has_avx"):
        pytest.skip("llama.cpp was compiled with its kernels apart")
    compiled = compiled_for(library)
    refuse_missing(compiled, processor_flags())
    for name in ("avx2", "fma", "avx512"):
        assert (name in compiled) == (f"{name.upper()} = 1" in system_info())
