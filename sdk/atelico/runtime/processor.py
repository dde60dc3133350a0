"""Whether this processor can run llama.cpp's kernels: asked before any of them runs, since a missing instruction would
end the process.

llama.cpp comes in two shapes: compiled for one kind of processor (what setup installs), or with one library per
generation of processors beside it, of which the best is loaded (what a bundle ships).
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Final

import llama_cpp

from atelico.errors import ConfigError

# ggml_cpu_has_...: what the kernels were compiled for -> the flags that Linux reports for it.
_FLAGS: Final = {
    "sse3": ("pni",),
    "ssse3": ("ssse3",),
    "avx": ("avx",),
    "f16c": ("f16c",),
    "fma": ("fma",),
    "avx2": ("avx2",),
    "bmi2": ("bmi2",),
    "avx_vnni": ("avx_vnni",),
    "avx512": ("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
    "avx512_vbmi": ("avx512vbmi",),
    "avx512_vnni": ("avx512_vnni",),
    "avx512_bf16": ("avx512_bf16",),
    "amx_int8": ("amx_int8",),
}
_CODE: Final = "unsupported_processor"
_CPUINFO: Final = Path("/proc/cpuinfo")


def prepare_kernels() -> None:
    """Load the kernels for this processor, or make sure that those inside the library can run here.

    Raises:
        ConfigError: this processor is too old for every one of them.
    """
    # Through libllama's handle, whose dependencies are the instances that it uses.
    library = llama_cpp.llama_cpp._lib
    if hasattr(library, "ggml_cpu_has_avx"):
        refuse_missing(compiled_for(library), processor_flags())
        return
    count = library.ggml_backend_dev_count
    count.restype, count.argtypes = ctypes.c_size_t, []
    if count() == 0:
        load = library.ggml_backend_load_all_from_path
        load.restype, load.argtypes = None, [ctypes.c_char_p]
        load(str(Path(llama_cpp.__file__).parent / "lib").encode())
    if count() == 0:
        raise ConfigError(
            "None of llama.cpp's libraries libggml-cpu-* can run on this processor, or they are missing.",
            hint="Put back the files of the bundle; it needs an x86-64 processor with SSE4.2.",
            code=_CODE,
        )


def compiled_for(library: ctypes.CDLL) -> tuple[str, ...]:
    """The instruction sets that the kernels inside `library` use whatever the processor is."""
    return tuple(name for name in _FLAGS if getattr(library, f"ggml_cpu_has_{name}")() == 1)


def refuse_missing(wanted: tuple[str, ...], flags: frozenset[str]) -> None:
    """Compare what kernels use with what the processor has; `flags` is empty where it cannot be asked.

    Raises:
        ConfigError: something is missing.
    """
    missing = [name.upper() for name in wanted if not flags.issuperset(_FLAGS[name])]
    if flags and missing:
        raise ConfigError(
            f"This processor cannot run this build of llama.cpp, which needs {', '.join(missing)}.",
            hint="Use a bundle made without --native, or compile llama-cpp-python on this machine.",
            code=_CODE,
        )


@functools.cache
def processor_flags() -> frozenset[str]:
    """What Linux says this processor can do; empty elsewhere."""
    try:
        lines = _CPUINFO.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), []))
