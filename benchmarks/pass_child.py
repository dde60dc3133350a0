"""One measurement of benchmarks/passes.py, in a process of its own, which may be another Python without atelico.

usage: pass_child.py MODEL own|llama.cpp|ik_llama.cpp THREADS TOKENS WIDTH...; prints JSON, milliseconds.
"""

import ctypes
import json
import os
import statistics
import sys
import time

os.environ.setdefault("GOMP_SPINCOUNT", "500")

import numpy as np

path, kind = sys.argv[1:3]
n_threads, n_tokens, *widths = map(int, sys.argv[3:])
N_BATCH, N_SAMPLES = 256, 9

if kind == "ik_llama.cpp":
    from ik_llama_cpp import _ctypes_api as api

    api.llama_backend_init()
    model_parameters = api.llama_model_default_params()
    # Its fastest set-up.
    model_parameters.flash_attn, model_parameters.repack_tensors, model_parameters.use_mmap = True, True, False
    parameters, lib = api.llama_context_default_params(), api._lib
    parameters.flash_attn = True
    lib.llama_batch_init.restype, lib.llama_batch_init.argtypes = api.llama_batch, [ctypes.c_int32] * 3
    lib.llama_decode.restype, lib.llama_decode.argtypes = ctypes.c_int32, [ctypes.c_void_p, api.llama_batch]
    lib.llama_get_logits.restype, lib.llama_get_logits.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    lib.llama_kv_cache_seq_rm.argtypes = [ctypes.c_void_p] + [ctypes.c_int32] * 3
else:
    import llama_cpp as api

    api.llama_backend_init()
    model_parameters = api.llama_model_default_params()
    parameters, lib = api.llama_context_default_params(), api
    parameters.flash_attn_type = 1
    if kind == "own":
        from atelico._native import install_kernels

        install_kernels(api.llama_cpp._lib._handle)

started = time.perf_counter()
model = api.llama_model_load_from_file(path.encode(), model_parameters)
load_ms = (time.perf_counter() - started) * 1000
parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = n_tokens + 300, N_BATCH, N_BATCH
parameters.n_threads = parameters.n_threads_batch = n_threads
context = api.llama_init_from_model(model, parameters)
tokens = np.random.default_rng(1).integers(100, 5000, n_tokens + max(widths)).tolist()


def rewind(position: int) -> None:
    """Forget what comes from `position` on."""
    if kind == "ik_llama.cpp":
        lib.llama_kv_cache_seq_rm(context, 0, position, -1)
    else:
        api.llama_memory_seq_rm(api.llama_get_memory(context), 0, position, -1)


def decode(first: int, n: int, *, every: bool) -> float:
    """Milliseconds of a pass over `n` tokens, with the logits of all or of the last one."""
    batch = lib.llama_batch_init(n, 0, 1)
    batch.n_tokens = n
    for i in range(n):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = tokens[first + i], first + i, 1, 0
        batch.logits[i] = every or i == n - 1
    started = time.perf_counter()
    if lib.llama_decode(context, batch) != 0:
        raise RuntimeError("a pass failed")
    lib.llama_get_logits(context)
    taken = (time.perf_counter() - started) * 1000
    lib.llama_batch_free(batch)
    return taken


found = {"load": load_ms}
found["prompt"] = sum(decode(i, min(N_BATCH, n_tokens - i), every=False) for i in range(0, n_tokens, N_BATCH))
samples: dict[int, list[float]] = {width: [] for width in widths}
for _ in range(N_SAMPLES):
    for width in widths:
        samples[width].append(decode(n_tokens, width, every=True))
        rewind(n_tokens)
found.update({str(width): statistics.median(times) for width, times in samples.items()})
print(json.dumps(found))
