"""A model's weights in memory: loading, facts, freeing."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp

from atelico.errors import CancelledError, ModelLoadError
from atelico.runtime import devices, kernels, library
from atelico.runtime.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelOptions:
    """How to load. `n_gpu_layers`: layers to offload, -1 for all; 0 keeps everything on the CPU.

    `load_head`: load the NextN head, too; only for files that mtp.why_not has no objection to. `repack`: let llama.cpp
    rearrange weights for speed, see kernels.py.
    """

    n_gpu_layers: int = -1
    use_mmap: bool = True
    load_head: bool = False
    repack: bool = True


class Model:
    """One loaded model; owned by one thread. Call `close` after the last context on it is closed.

    Attributes:
        vocabulary: its tokens.
        device: what runs it ("cpu", "metal", "cuda", ...).
        has_head: whether its NextN head is loaded.
        n_window: tokens that sliding-window layers see; 0 without such layers.
        recurrent: whether (part of) its memory is a recurrent state, which llama.cpp cannot cut at any position.
        batched_verify: whether one forward pass gives the logits of several positions of a sequence.
    """

    def __init__(
        self, path: Path, options: ModelOptions, on_progress: Callable[[float], bool] = lambda _share: True
    ) -> None:
        """Load `path`. `on_progress` gets the share done, 0 to 1, and stops the load by returning False.

        Raises:
            CancelledError: `on_progress` stopped it.
            ModelLoadError: llama.cpp refused the file; its reason is in the message.
        """
        library.initialise()
        parameters = llama_cpp.llama_model_default_params()
        self.device = devices.device_for(options.n_gpu_layers)
        parameters.n_gpu_layers = options.n_gpu_layers if self.device != "cpu" else 0
        parameters.load_mtp = options.load_head
        parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_MMAP if options.use_mmap else llama_cpp.LLAMA_LOAD_MODE_NONE
        parameters.use_extra_bufts = options.repack
        if kernels.own_tier() is None and library.has_amx():
            parameters.use_extra_bufts = False
            logger.warning("this llama.cpp uses AMX, whose kernels crash on some machines: loading without them")
        cancelled = False

        def progress(share: float, _user_data: Any) -> bool:
            nonlocal cancelled
            cancelled = not on_progress(share)
            return not cancelled

        callback = llama_cpp.llama_progress_callback(progress)
        parameters.progress_callback = callback
        with library.collected_problems() as problems:
            handle = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        if not handle:
            if cancelled:
                raise CancelledError("Loading the model was cancelled.")
            reason = problems[0] if problems else "llama.cpp gave no reason"
            raise ModelLoadError(
                f"The model file {path} cannot be loaded: {reason}.",
                param="model",
                hint="Check that the file is complete and its architecture is known to this version.",
            )
        self.path = path
        self._handle: int | None = handle
        self.vocabulary = Vocabulary(llama_cpp.llama_model_get_vocab(handle))
        self.n_ctx_train: int = llama_cpp.llama_model_n_ctx_train(handle)
        self.has_head = options.load_head and llama_cpp.llama_model_n_layer_nextn(handle) > 0
        self.n_window: int = llama_cpp.llama_model_n_swa(handle)
        self.recurrent = bool(llama_cpp.llama_model_is_recurrent(handle) or llama_cpp.llama_model_is_hybrid(handle))
        self.batched_verify = not (
            llama_cpp.llama_model_is_diffusion(handle) or llama_cpp.llama_model_has_encoder(handle)
        )

    @property
    def handle(self) -> int:
        """llama.cpp's pointer. Only for this package."""
        if self._handle is None:
            raise ModelLoadError(f"The model {self.path.name} has been unloaded.")
        return self._handle

    @property
    def n_bytes(self) -> int:
        """Bytes of the weights."""
        return int(llama_cpp.llama_model_size(self.handle))

    def kv_bytes_per_token(self) -> int:
        """Bytes of attention memory per token, keys and values in 16 bits; an upper bound where layers differ."""
        n_heads = max(llama_cpp.llama_model_n_head(self.handle), 1)
        head = llama_cpp.llama_model_n_embd(self.handle) // n_heads
        architecture = self._metadata("general.architecture") or ""
        key = int(self._metadata(f"{architecture}.attention.key_length") or head)
        value = int(self._metadata(f"{architecture}.attention.value_length") or head)
        n_kv_heads = llama_cpp.llama_model_n_head_kv(self.handle)
        return int(llama_cpp.llama_model_n_layer(self.handle) * n_kv_heads * (key + value) * 2)

    def _metadata(self, key: str) -> str | None:
        buffer = ctypes.create_string_buffer(256)
        size = llama_cpp.llama_model_meta_val_str(self.handle, key.encode(), buffer, len(buffer))
        return buffer.value.decode(errors="replace") if size >= 0 else None

    def close(self) -> None:
        """Free the weights. Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            llama_cpp.llama_model_free(handle)


def description(model: Model) -> str:
    """What llama.cpp calls the model, e.g. "llama 135M Q4_1"."""
    buffer = ctypes.create_string_buffer(256)
    llama_cpp.llama_model_desc(model.handle, buffer, len(buffer))
    return buffer.value.decode(errors="replace")
