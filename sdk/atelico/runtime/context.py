"""A context: the KV cache of a model's sequences, and the forward pass over a batch of rows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt
import psutil

from atelico._native import AbortFlag
from atelico.errors import InferenceError, MemoryFullError, ModelLoadError
from atelico.runtime import kernels, library, mtp
from atelico.runtime.memory import Memory
from atelico.runtime.model import Model
from atelico.runtime.state_order import in_position_order

Logits = npt.NDArray[np.float32]

_FLASH_ATTENTION_ON = 1  # enum llama_flash_attn_type
_NO_SLOT = 1  # llama_decode's result when the memory has no room for the batch
_ABORTED = 2  # llama_decode's result when the abort callback said so


@dataclass(frozen=True)
class ContextOptions:
    """Sizes of a context, in tokens. `n_ctx`: of one sequence; `n_cells`: of all together.

    `n_outputs`: rows with logits in one batch, which bounds what can be verified.
    `n_rollback`: drafts that recurrent memory can take back; llama.cpp may grant fewer (see `Context.n_rollback`).
    `n_exact`: rows up to which a pass is to compute each as if it were alone, see kernels.py; 0 where that does not
    matter.
    """

    n_ctx: int
    n_cells: int
    n_batch: int
    n_sequences: int
    n_outputs: int
    n_threads: int
    n_rollback: int = 0
    n_exact: int = 0


@dataclass(frozen=True)
class Row:
    """One token of a batch: where it goes, and whether its logits are wanted."""

    token: int
    position: int
    sequence: int
    wants_logits: bool


def check_room(model: Model, options: ContextOptions) -> None:
    """Refuse a context that this machine has no room for, since llama.cpp may end the process where it finds none.

    Raises:
        ModelLoadError: memory and logits take more than is free.
    """
    cells = options.n_cells * model.kv_bytes_per_token()
    logits = options.n_outputs * model.vocabulary.n_tokens * np.dtype(np.float32).itemsize
    free = psutil.virtual_memory().available
    if model.device == "cpu" and cells + logits > free:
        raise ModelLoadError(
            f"{model.path.name} needs {cells / 2**20:,.0f} MiB for a memory of {options.n_cells} tokens and "
            f"{logits / 2**20:,.0f} MiB for logits; {free / 2**20:,.0f} MiB are free.",
            hint="Configure a smaller n_ctx or kv_tokens, or fewer n_lanes and max_draft.",
        )


class Context:
    """Memory and computation of one model; owned by one thread.

    Attributes:
        n_ctx: tokens one sequence may hold.
        n_cells: tokens all sequences hold together; shared ones count once.
        n_batch: rows of the largest batch. One batch is one forward pass (n_ubatch equals n_batch), so that a verify
            batch is never split, which sliding-window memory could not roll back.
        n_rollback: tokens of the last decode that can be taken back: all with plain attention, fewer or none with
            recurrent memory.
        recurrent: whether a sequence cannot be cut at any position.
        n_exact: rows up to which a pass computes each as if it were alone; 0 where none is known.
        n_vocab: width of a row of logits; ids from here on are no tokens.
    """

    def __init__(self, model: Model, options: ContextOptions, abort: AbortFlag | None = None) -> None:
        """Allocate the memory. `abort`: stops a forward pass from another thread.

        Raises:
            ModelLoadError: it does not fit, or the model cannot generate.
        """
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = options.n_cells
        # llama.cpp aborts the process unless a batch holds more rows than there are rollback states.
        parameters.n_batch = parameters.n_ubatch = max(options.n_batch, options.n_rollback + 2)
        parameters.n_seq_max = options.n_sequences
        parameters.n_rs_seq = options.n_rollback
        # By default llama.cpp reserves n_batch rows of logits: hundreds of MB on a large vocabulary. It aborts the
        # process with fewer rows than sequences.
        parameters.n_outputs_max = max(options.n_outputs, options.n_sequences)
        parameters.n_threads = parameters.n_threads_batch = options.n_threads
        # Batched and single-row logits agree to the bit only with flash attention.
        parameters.flash_attn_type = _FLASH_ATTENTION_ON
        # Lanes with drafts of different lengths stay one forward pass only with one buffer for all sequences.
        parameters.kv_unified = True
        parameters.no_perf = True
        # After an aborted pass llama.cpp cuts memory back, which it cannot do with a recurrent state.
        if abort is not None and not model.recurrent:
            parameters.abort_callback = llama_cpp.ggml_abort_callback(abort.function)
            parameters.abort_callback_data = ctypes.c_void_p(abort.data)
        handle = None
        if 1 < options.n_exact < kernels.EVERY_WIDTH and options.n_threads > 1:
            # Else attention to more than 256 cells is computed in another order for one row than for several.
            parameters.type_v = llama_cpp.GGML_TYPE_Q8_0
            handle = llama_cpp.llama_init_from_model(model.handle, parameters)
            parameters.type_v = llama_cpp.GGML_TYPE_F16  # some heads have no multiple of 32 values
        with library.collected_problems() as problems:
            handle = handle or llama_cpp.llama_init_from_model(model.handle, parameters)
        if not handle:
            reason = problems[-1] if problems else "llama.cpp gave no reason"
            raise ModelLoadError(
                f"No memory of {options.n_cells} tokens can be made for {model.path.name}: {reason}.",
                hint="Use a smaller n_ctx or kv_tokens, or a model that generates text.",
            )
        self._handle: int | None = handle
        self._memory = Memory(handle, recurrent=model.recurrent, n_window=model.n_window)
        self.n_vocab = model.vocabulary.n_tokens
        self._n_embd: int = llama_cpp.llama_model_n_embd_out(model.handle)
        # Always, so that a pass computes the same whether or not somebody drafts from the hidden states.
        self._extension: Any = mtp.extension() if model.has_head else None
        if self._extension is not None:
            self._extension.llama_set_embeddings_nextn(handle, True, False)
        self._abort = abort  # must outlive the context
        self.n_sequences = options.n_sequences
        self.n_outputs = options.n_outputs
        self.n_exact = options.n_exact
        self.n_cells: int = llama_cpp.llama_n_ctx(handle)
        self.n_ctx = min(options.n_ctx, self.n_cells)
        self.n_batch: int = llama_cpp.llama_n_batch(handle)
        self.recurrent = model.recurrent
        self.n_rollback = self._memory.n_rollback
        self._logits_address = 0
        self._logits_view: Logits = np.empty((0, self.n_vocab), np.float32)
        self._allocate_batch()

    def _allocate_batch(self) -> None:
        """Arrays for the largest batch, and llama.cpp's struct pointing into them."""
        n = self.n_batch
        self._tokens = np.zeros(n, np.int32)
        self._positions = np.zeros(n, np.int32)
        self._sequences = np.zeros(n, np.int32)
        self._sequence_counts = np.ones(n, np.int32)
        self._outputs = np.zeros(n, np.int8)
        addresses = self._sequences.ctypes.data + np.arange(n, dtype=np.uintp) * self._sequences.itemsize
        self._sequence_pointers = addresses.astype(np.uintp)
        batch = self._batch = llama_cpp.llama_batch()

        def pointer(array: npt.NDArray[np.generic], field: str) -> None:
            kind = dict(llama_cpp.llama_batch._fields_)[field]
            setattr(batch, field, ctypes.cast(array.ctypes.data, kind))

        pointer(self._tokens, "token")
        pointer(self._positions, "pos")
        pointer(self._sequence_counts, "n_seq_id")
        pointer(self._sequence_pointers, "seq_id")
        pointer(self._outputs, "logits")

    @property
    def handle(self) -> int:
        """llama.cpp's pointer. Only for this package."""
        if self._handle is None:
            raise InferenceError("The context has been closed.")
        return self._handle

    def decode(self, rows: Sequence[Row]) -> Logits | None:
        """One forward pass over `rows`; their keys and values join the sequences.

        Returns:
            The logits of the rows that want them, in their order: float32 [n_outputs, n_vocab], a view that is
            valid until the next decode. None when the abort flag stopped it: the rows are then not in memory.

        Raises:
            MemoryFullError: no room for the rows; nothing has changed.
            InferenceError: llama.cpp failed, or the batch is larger than the context allows.
        """
        n, n_outputs = len(rows), sum(row.wants_logits for row in rows)
        if not 0 < n <= self.n_batch or n_outputs > self.n_outputs:
            raise InferenceError(
                f"A batch of {n} rows with {n_outputs} outputs exceeds the limits {self.n_batch} and {self.n_outputs}."
            )
        for i, row in enumerate(rows):
            self._tokens[i] = row.token
            self._positions[i] = row.position
            self._sequences[i] = row.sequence
            self._outputs[i] = row.wants_logits
        self._batch.n_tokens = n
        result = llama_cpp.llama_decode(self.handle, self._batch)
        if result == _ABORTED:
            return None
        if result == _NO_SLOT:
            raise MemoryFullError(f"The memory of {self.n_cells} tokens is full.", hint="Configure more kv_tokens.")
        if result != 0:
            raise InferenceError(f"llama.cpp could not decode a batch of {n} rows: {library.last_problem()}.")
        self._memory.decoded(row.sequence for row in rows)
        if n_outputs == 0:
            return np.empty((0, self.n_vocab), np.float32)
        return self._logits()[:n_outputs]

    def _logits(self) -> Logits:
        """llama.cpp's buffer of logits as an array. Made anew only when the buffer has moved: this is a hot path."""
        pointer = llama_cpp.llama_get_logits(self.handle)
        address = ctypes.addressof(pointer.contents)
        if address != self._logits_address:
            self._logits_address = address
            # Rows beyond those of the last decode may lie outside of the buffer; nobody looks at them.
            self._logits_view = np.ctypeslib.as_array(pointer, (self.n_outputs, self.n_vocab))
        return self._logits_view

    def hidden(self, first: int, count: int) -> Logits:
        """Hidden states of `count` rows of the last decode, from the `first` on: float32 [count, n_embd].

        A view that is valid until the next decode. Only for a model whose NextN head is loaded.

        Raises:
            InferenceError: it is not, or nothing has been decoded.
        """
        pointer = self._extension.llama_get_embeddings_nextn(self.handle) if self._extension is not None else None
        if not pointer:
            raise InferenceError("This context has no hidden states for a NextN head.")
        return np.ctypeslib.as_array(pointer, (first + count, self._n_embd))[first:]

    def length(self, sequence: int) -> int:
        """Tokens of `sequence` in memory."""
        return self._memory.length(sequence)

    def truncate(self, sequence: int, length: int) -> bool:
        """Keep the first `length` tokens of `sequence`. False when it cannot be cut there; see Memory.truncate."""
        return self._memory.truncate(sequence, length)

    def can_truncate(self, sequence: int, length: int) -> bool:
        """Whether `truncate` would work."""
        return self._memory.can_truncate(sequence, length)

    def can_restore(self, n_tokens: int, length: int) -> bool:
        """Whether a state of `n_tokens` tokens can be restored and then cut to `length` of them."""
        return self._memory.can_restore(n_tokens, length)

    def share(self, source: int, target: int, length: int) -> None:
        """Make the empty `target` begin with the first `length` tokens of `source`. The cells are shared, not copied.

        Not for recurrent memory, whose state is only that of the last token.
        """
        self._memory.share(source, target, length)

    def state_size(self, sequence: int) -> int:
        """Bytes that `state` would return."""
        return int(llama_cpp.llama_state_seq_get_size(self.handle, sequence))

    def state(self, sequence: int) -> bytes:
        """The memory of `sequence` as llama.cpp writes it, to be restored in a context of the same model.

        Raises:
            InferenceError: llama.cpp could not write it.
        """
        size = self.state_size(sequence)
        buffer = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self.handle, buffer, size, sequence) != size:
            raise InferenceError("llama.cpp could not write the state of a sequence.")
        return bytes(buffer) if self.recurrent else in_position_order(bytes(buffer))

    def restore(self, sequence: int, state: bytes) -> bool:
        """Fill the empty `sequence` with a state. False when it does not fit; the sequence is empty then.

        Trusts its input: give it only what `state` returned for this model.
        """
        buffer = ctypes.cast(ctypes.c_char_p(state), ctypes.POINTER(ctypes.c_uint8))
        done = bool(llama_cpp.llama_state_seq_set_data(self.handle, buffer, len(state), sequence) == len(state))
        if not done:
            self.clear(sequence)
        return done

    def clear(self, sequence: int) -> None:
        """Forget `sequence`; removing all of it is possible in every kind of memory."""
        self._memory.clear(sequence)

    def set_threads(self, n_threads: int) -> None:
        """Use so many threads from the next decode on."""
        llama_cpp.llama_set_n_threads(self.handle, n_threads, n_threads)

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            llama_cpp.llama_free(handle)
