"""What computes: the devices llama.cpp's backends offer."""

from __future__ import annotations

import ctypes
import functools

from llama_cpp._ggml import libggml

# enum ggml_backend_dev_type: 0 CPU, 1 GPU, 2 integrated GPU, 3 accelerator.
_GPU_TYPES = (1, 2)
# Backend registry names as llama.cpp spells them, and the names users know.
_FAMILIES = {"mtl": "metal", "metal": "metal", "cuda": "cuda", "rocm": "rocm", "vulkan": "vulkan", "sycl": "sycl"}


def _function(name: str, result: type, *arguments: type) -> ctypes._NamedFuncPointer:
    function: ctypes._NamedFuncPointer = getattr(libggml, name)
    function.restype, function.argtypes = result, list(arguments)
    return function


@functools.cache
def gpu_family() -> str | None:
    """The family of the first GPU llama.cpp would offload to ("metal", "cuda", ...), or None without one."""
    count = _function("ggml_backend_dev_count", ctypes.c_size_t)()
    get = _function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    kind = _function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
    registry = _function("ggml_backend_dev_backend_reg", ctypes.c_void_p, ctypes.c_void_p)
    name = _function("ggml_backend_reg_name", ctypes.c_char_p, ctypes.c_void_p)
    for i in range(count):
        device = get(i)
        if kind(device) in _GPU_TYPES:
            text = name(registry(device)).decode().lower()
            return next((family for prefix, family in _FAMILIES.items() if text.startswith(prefix)), text)
    return None


def device_for(n_gpu_layers: int) -> str:
    """The device that runs a model with so many offloaded layers: "cpu" or a GPU family."""
    return (gpu_family() or "cpu") if n_gpu_layers != 0 else "cpu"
