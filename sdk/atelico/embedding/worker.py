"""The thread of one embedding model: it loads the model and embeds the texts of its requests in turn."""

from __future__ import annotations

import collections
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

import numpy as np

from atelico._native import AbortFlag
from atelico.config import EngineConfig
from atelico.decoding.load import ModelLoad, State
from atelico.embedding.texts import EmbeddedTexts
from atelico.errors import (
    AtelicoError,
    CancelledError,
    ContextOverflowError,
    InternalError,
    InvalidRequestError,
    ShuttingDownError,
)
from atelico.models.catalog import ModelRef
from atelico.models.gguf import read_gguf
from atelico.open_requests import OpenRequests
from atelico.runtime.embedder import Embedder, Vector
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.threads import default_threads, lower_priority

logger = logging.getLogger(__name__)

# The same bound as for a chat's context: long texts cost memory at once, and the configuration may ask for more.
_DEFAULT_N_TOKENS = 4096


class _Request:
    """Texts on their way. Its future is never marked as running, so that it can be cancelled until its end."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.future: Future[EmbeddedTexts] = Future()
        self.tokens: list[list[int]] = []  # of every text, from the first step on
        self.vectors: list[Vector] = []

    def fail(self, error: AtelicoError) -> None:
        with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
            self.future.set_exception(error)

    def finish(self) -> None:
        counts = tuple(len(tokens) for tokens in self.tokens)
        with contextlib.suppress(InvalidStateError):
            self.future.set_result(EmbeddedTexts(np.stack(self.vectors), counts))


class EmbeddingWorker:
    """An embedding model from its first request to its unloading.

    Attributes:
        ref: which file it is.
        progress: share of the loading done, 0 to 1.
    """

    def __init__(self, ref: ModelRef, config: EngineConfig, on_failed: Callable[[EmbeddingWorker], None]) -> None:
        """Start loading at once. `on_failed`: called on the loading thread when that does not work."""
        self.ref = ref
        self.progress = 0.0
        self._config = config
        self._on_failed = on_failed
        self._requests = OpenRequests[_Request](ref.name, config.max_queue, lambda request: request.future.done())
        self._settled = threading.Event()  # loaded, failed or closed
        self._ready = False
        self._abort = AbortFlag()
        self._thread = threading.Thread(target=self._run, name=f"atelico-embed-{ref.name}", daemon=True)
        self._thread.start()

    @property
    def state(self) -> State:
        """Where in its life this model is."""
        if self._requests.closing:
            return "closed"
        if self._requests.error is not None:
            return "failed"
        return "ready" if self._ready else "loading"

    @property
    def error(self) -> AtelicoError | None:
        """Why loading failed."""
        return self._requests.error

    def load(self) -> ModelLoad:
        """How busy the model is; it has no lanes."""
        return ModelLoad(self.ref.name, self.state, self._requests.count())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until loading has ended, well or badly. False when it has not within `timeout` seconds."""
        return self._settled.wait(timeout)

    def submit(self, texts: list[str]) -> Future[EmbeddedTexts]:
        """Queue `texts`; the future always gets a result or an AtelicoError. Cancelling it works between two texts.

        Raises:
            BusyError: too many requests are waiting.
            ShuttingDownError: the model is being unloaded.
        """
        request = _Request(texts)
        self._requests.add(request)
        return request.future

    def close(self, timeout: float | None = None) -> bool:
        """End every request, stop the thread and free the model. False when `timeout` seconds passed before that."""
        self._requests.close()
        self._abort.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        ended: AtelicoError = ShuttingDownError("The engine was closed while the request ran.")
        try:
            with contextlib.ExitStack() as resources:
                embedder = self._load(resources)
                self._ready = True
                self._settled.set()
                if self._config.low_priority:
                    lower_priority()
                self._serve(embedder)
        except CancelledError:  # only `close` stops the loading
            pass
        except AtelicoError as error:
            ended = error
        except Exception as error:
            logger.exception("the thread of %s ended for a defect", self.ref.path)
            ended = InternalError(f"{self.ref.name} failed for a defect of atelico: {error}.")
        if not self._requests.closing:
            self._requests.fail(ended)
        self._settled.set()
        if self._requests.error is not None:
            self._on_failed(self)
        for request in self._requests.drain():
            request.fail(ended)

    def _load(self, resources: contextlib.ExitStack) -> Embedder:
        def on_progress(share: float) -> bool:
            self.progress = share
            return not self._requests.closing

        info = read_gguf(self.ref.path)
        n_tokens = self._config.n_ctx or _DEFAULT_N_TOKENS
        model = Model(info.path, ModelOptions(n_gpu_layers=self._config.n_gpu_layers), on_progress)
        resources.callback(model.close)
        embedder = Embedder(
            model,
            min(info.n_ctx_train or n_tokens, n_tokens),
            self._config.n_threads or default_threads(),
            self._abort,
        )
        resources.callback(embedder.close)
        logger.info("loaded %s (%s, %s) for embeddings", self.ref.name, info.architecture, info.quantization)
        return embedder

    def _serve(self, embedder: Embedder) -> None:
        """Embed one text of each request in turn, so that a long list does not keep a short one waiting."""
        waiting: collections.deque[_Request] = collections.deque()
        while not self._requests.closing:
            while not waiting or self._requests.has_next():
                request = self._requests.next()
                if request is None:
                    return
                waiting.append(request)
            request = waiting.popleft()
            if self._step(request, embedder):
                waiting.append(request)

    def _step(self, request: _Request, embedder: Embedder) -> bool:
        """Embed the next text of `request`. Whether there are more."""
        if request.future.cancelled():
            return False
        try:
            if not request.tokens:
                request.tokens = [self._tokens(i, text, embedder) for i, text in enumerate(request.texts)]
            request.vectors.append(embedder.embed(request.tokens[len(request.vectors)]))
        except CancelledError:  # the model is being closed, which ends all requests
            return False
        except AtelicoError as error:
            request.fail(error)
            return False
        except Exception:
            logger.exception("a defect failed an embedding request")
            request.fail(InternalError("The embedding failed for a defect of atelico; see the log."))
            return False
        if len(request.vectors) < len(request.texts):
            return True
        request.finish()
        return False

    def _tokens(self, i: int, text: str, embedder: Embedder) -> list[int]:
        tokens = embedder.tokenize(text)
        if len(tokens) > embedder.n_tokens:
            raise ContextOverflowError(
                f"input[{i}] has {len(tokens)} tokens; {self.ref.name} takes at most {embedder.n_tokens}.",
                param=f"input[{i}]",
                hint="Split the text and embed the parts.",
            )
        if not tokens:
            raise InvalidRequestError(
                f"input[{i}] has no tokens.", param=f"input[{i}]", hint="This model cannot embed an empty text."
            )
        return tokens
