"""A NextN head (multi-token prediction): a context of its own over the last block of a model's file.

The call sequence is llama.cpp's own: an entry of the head at position p is the token there together with the hidden
state that the model had at position p - 1. Nothing here decides what to draft.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from atelico._native import AbortFlag
from atelico.errors import InferenceError, ModelLoadError
from atelico.runtime import library
from atelico.runtime.model import Model

Hidden = npt.NDArray[np.float32]

# Architectures for which llama.cpp has a graph of the head. Others may claim a head in their metadata, and a context on
# them would abort the process.
ARCHITECTURES = frozenset(
    {
        "bailingmoe3",
        "cohere2moe",
        "deepseek2",
        "deepseek32",
        "deepseek4",
        "glm-dsa",
        "glm4moe",
        "glm5-next",
        "hy_v3",
        "mimo2",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
        "qwen3next",
        "step35",
    }
)
_ABORTED = 2


def why_not(architecture: str, n_heads: int, *, has_tensors: bool) -> str | None:
    """Why a model file of these facts has no head that can draft, or None."""
    if n_heads == 0:
        return "this model file has no NextN head (MTP, multi-token prediction)"
    if not has_tensors:
        return "this model file promises a NextN head, but its tensors are missing"
    if architecture not in ARCHITECTURES:
        return f"llama.cpp cannot run the NextN head of architecture '{architecture}'"
    if n_heads > 1:
        return f"{n_heads} NextN heads in a chain are not supported"
    if extension() is None:
        return "this build of llama.cpp does not export the functions of NextN heads"
    return None


def extension() -> ModuleType | None:
    """llama.cpp's staging functions; they may change or go with any release."""
    try:
        return importlib.import_module("llama_cpp.llama_cpp_ext")
    except (ImportError, AttributeError):
        return None


@dataclass(frozen=True)
class HeadOutput:
    """What the head says after the last entry: float32 [n_vocab] and [n_embd], copies."""

    logits: npt.NDArray[np.float32]
    hidden: Hidden


class HeadContext:
    """The head's memory, one sequence per lane, and its passes. Used by one thread, the target's.

    Attributes:
        n_batch: entries of the largest pass.
        n_embd: width of a hidden state.
    """

    def __init__(
        self, model: Model, *, n_cells: int, n_sequences: int, n_threads: int, n_batch: int, abort: AbortFlag | None
    ) -> None:
        """`model`: loaded with its head (ModelOptions.load_head), which `why_not` must have found usable.

        Raises:
            ModelLoadError: the memory does not fit.
        """
        found = extension()
        if found is None or not model.has_head:  # a context without the head's tensors aborts the process
            raise ModelLoadError(f"{model.path.name} was loaded without its NextN head.")
        self._extension: Any = found
        parameters = llama_cpp.llama_context_default_params()
        parameters.ctx_type = llama_cpp.LLAMA_CONTEXT_TYPE_MTP
        parameters.n_ctx = n_cells
        parameters.n_batch = parameters.n_ubatch = n_batch
        parameters.n_seq_max = n_sequences
        parameters.n_rs_seq = 0
        parameters.n_outputs_max = n_sequences
        parameters.n_threads = parameters.n_threads_batch = n_threads
        parameters.kv_unified = True
        parameters.no_perf = True
        if abort is not None:
            parameters.abort_callback = llama_cpp.ggml_abort_callback(abort.function)
            parameters.abort_callback_data = ctypes.c_void_p(abort.data)
        with library.collected_problems() as problems:
            handle = llama_cpp.llama_init_from_model(model.handle, parameters)
        if not handle:
            reason = problems[-1] if problems else "llama.cpp gave no reason"
            raise ModelLoadError(f"The NextN head of {model.path.name} cannot be used: {reason}.")
        self._handle: int | None = handle
        self._memory = llama_cpp.llama_get_memory(handle)
        self._abort = abort  # must outlive the context
        self._extension.llama_set_embeddings_nextn(handle, True, True)
        self._n_vocab = model.vocabulary.n_tokens
        self.n_embd: int = llama_cpp.llama_model_n_embd_out(model.handle)
        self.n_batch: int = llama_cpp.llama_n_batch(handle)
        self._allocate_batch()

    def _allocate_batch(self) -> None:
        n = self.n_batch
        self._tokens = np.zeros(n, np.int32)
        self._hidden = np.zeros((n, self.n_embd), np.float32)
        self._positions = np.zeros(n, np.int32)
        self._sequences = np.zeros(n, np.int32)
        self._sequence_counts = np.ones(n, np.int32)
        self._outputs = np.zeros(n, np.int8)
        addresses = self._sequences.ctypes.data + np.arange(n, dtype=np.uintp) * self._sequences.itemsize
        self._sequence_pointers = addresses.astype(np.uintp)
        self._batch = llama_cpp.llama_batch()
        kinds = dict(llama_cpp.llama_batch._fields_)
        arrays: dict[str, npt.NDArray[Any]] = {
            "token": self._tokens,
            "embd": self._hidden,
            "pos": self._positions,
            "n_seq_id": self._sequence_counts,
            "seq_id": self._sequence_pointers,
            "logits": self._outputs,
        }
        for field, array in arrays.items():
            setattr(self._batch, field, ctypes.cast(array.ctypes.data, kinds[field]))

    def decode(
        self, sequence: int, position: int, tokens: Sequence[int], hidden: Hidden, *, wants_output: bool
    ) -> HeadOutput | None:
        """One pass over the entries of `tokens`, which go to `position` and after.

        Args:
            hidden: float32 [len(tokens), n_embd]; row i is the model's hidden state just before tokens[i].
            wants_output: whether the last entry's logits and hidden state are wanted.

        Returns:
            None when nothing was wanted, or the pass was aborted; its entries are then not in memory.

        Raises:
            InferenceError: there are too many entries, or llama.cpp failed.
        """
        n = len(tokens)
        if self._handle is None or not 0 < n <= self.n_batch or hidden.shape != (n, self.n_embd):
            raise InferenceError(f"{n} entries with hidden states {hidden.shape} do not fit the NextN head.")
        self._tokens[:n] = tokens
        self._hidden[:n] = hidden
        self._positions[:n] = np.arange(position, position + n)
        self._sequences[:n] = sequence
        self._outputs[:n] = 0
        self._outputs[n - 1] = wants_output
        self._batch.n_tokens = n
        result = llama_cpp.llama_decode(self._handle, self._batch)
        if result == _ABORTED:
            return None
        if result != 0:
            raise InferenceError(f"The NextN head could not decode {n} entries: result {result}.")
        if not wants_output:
            return None
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._handle), (self._n_vocab,))
        row = self._extension.llama_get_embeddings_nextn_ith(self._handle, n - 1)
        return HeadOutput(logits.copy(), np.ctypeslib.as_array(row, (self.n_embd,)).copy())

    def length(self, sequence: int) -> int:
        """Position after the last entry of `sequence`."""
        last: int = llama_cpp.llama_memory_seq_pos_max(self._memory, sequence)
        return last + 1

    def truncate(self, sequence: int, length: int) -> bool:
        """Forget the entries of `sequence` from position `length` on. False when its memory cannot be cut there."""
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, sequence, length, -1))

    def clear(self, sequence: int) -> None:
        """Forget `sequence`."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            llama_cpp.llama_free(handle)
