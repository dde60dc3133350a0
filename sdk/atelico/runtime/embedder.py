"""An embedder: texts of one embedding model to unit vectors. Queues and threads are not in here."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from atelico._native import AbortFlag
from atelico.errors import CancelledError, InferenceError, ModelLoadError
from atelico.runtime import library
from atelico.runtime.model import Model

logger = logging.getLogger(__name__)

Vector = npt.NDArray[np.float32]

# Buffers grow with the square of the longest text, so they are made for short ones and again when a longer one comes.
_FIRST_TOKENS = 512
_ABORTED = 2  # llama_decode's and llama_encode's result when the abort callback said so


class Embedder:
    """Computation of one embedding model; owned by one thread. Does not own the model.

    A text is one forward pass of its own (n_ubatch is at least its length): attention that looks ahead cannot be split,
    and a text's vector does not depend on what is embedded with it.

    Attributes:
        n_tokens: tokens of the longest text.
        n_embd: dimensions of a vector.
    """

    def __init__(self, model: Model, n_tokens: int, n_threads: int, abort: AbortFlag) -> None:
        """Allocate buffers for short texts. `abort`: stops a forward pass from another thread.

        Raises:
            ModelLoadError: it does not fit, or the model ranks texts instead of embedding them.
        """
        self.n_tokens = n_tokens
        self.n_embd: int = llama_cpp.llama_model_n_embd_out(model.handle)
        self._model = model
        self._n_threads = n_threads
        self._abort = abort  # must outlive the context
        self._pooling: int = llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED  # what the file says
        self._handle: int | None = None
        self._n_batch = 0
        self._allocate(min(n_tokens, _FIRST_TOKENS))
        pooling = llama_cpp.llama_pooling_type(self._handle)
        if pooling == llama_cpp.LLAMA_POOLING_TYPE_RANK:
            self.close()
            raise ModelLoadError(
                f"{model.path.name} ranks texts (a reranker); it gives no embeddings.",
                param="model",
                hint="Use an embedding model.",
            )
        if pooling == llama_cpp.LLAMA_POOLING_TYPE_NONE:
            logger.info("%s names no pooling: its embeddings are the mean over the tokens", model.path.name)
            self._pooling = llama_cpp.LLAMA_POOLING_TYPE_MEAN
            self._allocate(self._n_batch)

    def tokenize(self, text: str) -> list[int]:
        """The tokens of `text` as the model wants them, with [CLS] and the like around."""
        return self._model.vocabulary.tokenize(text, framed=True)

    def embed(self, tokens: Sequence[int]) -> Vector:
        """The embedding of one text, 1 to `n_tokens` tokens: float32 [n_embd] of length 1, or zeros.

        Raises:
            CancelledError: the abort flag stopped it.
            InferenceError: llama.cpp failed, or the text is too long.
        """
        n = len(tokens)
        if not 0 < n <= self.n_tokens:
            raise InferenceError(f"A text of {n} tokens cannot be embedded; the limits are 1 and {self.n_tokens}.")
        if n > self._n_batch:
            self._allocate(min(self.n_tokens, max(_FIRST_TOKENS, 1 << (n - 1).bit_length())))
        memory = llama_cpp.llama_get_memory(self._handle)
        encodes = not memory or llama_cpp.llama_model_has_encoder(self._model.handle)
        if memory:
            llama_cpp.llama_memory_clear(memory, True)
        result = self._run(np.array(tokens, np.int32), encodes=encodes)
        if result == _ABORTED or (result != 0 and self._abort.is_set()):
            raise CancelledError("Embedding was cancelled.")
        pooled = llama_cpp.llama_get_embeddings_seq(self._handle, 0) if result == 0 else None
        if not pooled:
            raise InferenceError(f"llama.cpp could not embed a text of {n} tokens: {library.last_problem()}.")
        vector = np.ctypeslib.as_array(pooled, (self.n_embd,)).astype(np.float32)  # a copy
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length):
            raise InferenceError("The embedding is not a number.", hint="The model file may be damaged.")
        return vector / np.float32(length) if length else vector

    def _run(self, tokens: npt.NDArray[np.int32], *, encodes: bool) -> int:
        """One forward pass over sequence 0; llama.cpp's result code."""
        n = len(tokens)
        positions, counts = np.arange(n, dtype=np.int32), np.ones(n, np.int32)
        outputs, sequence = np.ones(n, np.int8), np.zeros(1, np.int32)
        sequences = np.full(n, sequence.ctypes.data, np.uintp)
        batch = llama_cpp.llama_batch()
        kinds = dict(llama_cpp.llama_batch._fields_)
        fields: dict[str, npt.NDArray[Any]] = {
            "token": tokens,
            "pos": positions,
            "n_seq_id": counts,
            "seq_id": sequences,
            "logits": outputs,
        }
        for field, array in fields.items():
            setattr(batch, field, ctypes.cast(array.ctypes.data, kinds[field]))
        batch.n_tokens = n
        forward = llama_cpp.llama_encode if encodes else llama_cpp.llama_decode
        return int(forward(self._handle, batch))

    def _allocate(self, n_batch: int) -> None:
        """A context for texts of up to `n_batch` tokens in place of the one there is."""
        self.close()
        parameters = llama_cpp.llama_context_default_params()
        # llama.cpp aborts the process where attention that looks ahead meets a text longer than n_ubatch.
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = n_batch
        parameters.n_seq_max = 1
        parameters.n_threads = parameters.n_threads_batch = self._n_threads
        parameters.embeddings = True
        parameters.pooling_type = self._pooling
        parameters.no_perf = True
        # After an aborted pass llama.cpp cuts memory back, which it cannot do with a recurrent state.
        if not self._model.recurrent:
            parameters.abort_callback = llama_cpp.ggml_abort_callback(self._abort.function)
            parameters.abort_callback_data = ctypes.c_void_p(self._abort.data)
        with library.collected_problems() as problems:
            handle = llama_cpp.llama_init_from_model(self._model.handle, parameters)
        if not handle:
            reason = problems[-1] if problems else "llama.cpp gave no reason"
            raise ModelLoadError(
                f"No buffers for {n_batch} tokens can be made for {self._model.path.name}: {reason}.",
                hint="Embed shorter texts, or configure a smaller n_ctx.",
            )
        self._handle, self._n_batch = handle, n_batch

    def close(self) -> None:
        """Free the buffers. Safe to call twice."""
        handle, self._handle, self._n_batch = self._handle, None, 0
        if handle is not None:
            llama_cpp.llama_free(handle)
