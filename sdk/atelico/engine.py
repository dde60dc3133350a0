"""Engine: requests in, jobs out. Owns the loaded models; client, CLI, server and C ABI all enter here."""

from __future__ import annotations

import atexit
import functools
import logging
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from atelico.config import EngineConfig, load_config
from atelico.decoding.answer import end_unstarted
from atelico.decoding.load import ModelLoad, State
from atelico.decoding.worker import ModelWorker
from atelico.embedding.texts import EmbeddedTexts, as_texts
from atelico.embedding.worker import EmbeddingWorker
from atelico.errors import AtelicoError, ConfigError, InvalidRequestError, ModelLoadError, ShuttingDownError
from atelico.job import Job
from atelico.models.catalog import Catalog, ModelRef
from atelico.models.drafter_file import find_drafter
from atelico.models.gguf import read_gguf
from atelico.protocol.read import decode_request
from atelico.protocol.request import ChatRequest
from atelico.protocol.response import ChatCompletion
from atelico.remote.options import remote_alias
from atelico.runtime import kernels

if TYPE_CHECKING:
    from atelico.remote.client import Remotes

logger = logging.getLogger(__name__)

_Worker = ModelWorker | EmbeddingWorker


@dataclass(frozen=True)
class ModelState:
    """Where a model is in its life. `progress`: share of the loading done, 0 to 1. `error`: why loading failed."""

    state: State | None
    progress: float
    error: AtelicoError | None = None


class Engine:
    """Answers chat requests and embeds texts with models on this machine. Safe from any thread; also a context manager.

    with Engine() as engine:
        answer = engine.chat_completion({"model": "SmolLM2-135M-Instruct", "messages": [...]})
    """

    def __init__(self, config: EngineConfig | None = None) -> None:
        """`config`: None reads the user's configuration (see config.load_config). Nothing is loaded yet."""
        self.config = load_config() if config is None else config
        kernels.choose(self.config.kernels)
        self._catalog = Catalog(self.config.aliases, self.config.folders(), cache_dir=self.config.cache_folder())
        self._workers: dict[str, _Worker] = {}
        self._failed: dict[str, AtelicoError] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._remote_side: Remotes | None = None
        # Threads that decode while the interpreter shuts down would crash it.
        self._at_exit = functools.partial(_close_at_exit, weakref.ref(self))
        atexit.register(self._at_exit)

    # --- requests ---------------------------------------------------------------------------------------------

    def submit(self, request: bytes | str | Mapping[str, Any] | ChatRequest, *, prompt: str | None = None) -> Job:
        """Start a request and return at once; its model is loaded where it is not yet.

        Args:
            prompt: a text that the model goes on with as it is, control tokens included; the chat template and
                `messages` are then not used.

        Raises:
            InvalidRequestError: the request is malformed.
            ModelNotFoundError: no such model.
            BusyError: too many requests are waiting.
            ShuttingDownError: the engine is closed.
        """
        checked = request if isinstance(request, ChatRequest) else decode_request(request)
        alias = remote_alias(checked.model, self.config.aliases)
        if alias is not None:
            return self._remotes().submit(alias, checked, prompt)
        worker = self._worker(checked.model)
        job = Job(checked, prompt=prompt, on_cancel=worker.cancel)
        worker.submit(job)
        return job

    def chat_completion(
        self, request: bytes | str | Mapping[str, Any] | ChatRequest, timeout: float | None = None
    ) -> ChatCompletion:
        """The answer to a request.

        Args:
            timeout: seconds to wait at most; the request is then cancelled.

        Raises:
            TimeoutError: no answer within `timeout`.
            AtelicoError: see `submit`; or the request failed later.
        """
        job = self.submit(request)
        try:
            return job.result(timeout)
        except BaseException:
            job.cancel()
            raise

    def embed(self, model: str, texts: str | Sequence[str], timeout: float | None = None) -> EmbeddedTexts:
        """The embeddings of `texts` by an embedding model, which is loaded where it is not yet.

        Args:
            timeout: seconds to wait at most; the request is then cancelled.

        Raises:
            TimeoutError: not within `timeout`.
            AtelicoError: see `submit_texts`; or the request failed later.
        """
        future = self.submit_texts(model, texts)
        try:
            return future.result(timeout)
        except TimeoutError:
            raise TimeoutError(f"No embeddings within {timeout} seconds.") from None
        finally:
            future.cancel()

    def submit_texts(self, model: str, texts: str | Sequence[str]) -> Future[EmbeddedTexts]:
        """Start embedding `texts` and return at once. Cancelling the future works between two texts.

        The future ends in ContextOverflowError where a text is longer than the model takes; its `param`, such as
        `input[2]`, says which.

        Raises:
            InvalidRequestError: there is no text, one is not valid, or the model gives no embeddings.
            ModelNotFoundError: no such model.
            BusyError: too many requests are waiting.
            ShuttingDownError: the engine is closed.
        """
        checked = as_texts(texts)
        if remote_alias(model, self.config.aliases) is not None:
            raise InvalidRequestError(
                f"{model} is on another server; only chats are sent there.",
                param="model",
                code="unsupported_model",
                hint="Use an embedding model on this machine.",
            )
        return self._embedding_worker(model).submit(checked)

    # --- models -----------------------------------------------------------------------------------------------

    def models(self) -> list[ModelRef]:
        """Every model that a request can name."""
        return self._catalog.list()

    def resolve(self, name: str) -> ModelRef:
        """The file that `name` means.

        Raises:
            ModelNotFoundError: none.
        """
        return self._catalog.resolve(name)

    def load_model(self, name: str) -> None:
        """Start loading a model and return at once; `model_state` follows it.

        Raises:
            ModelNotFoundError: no such model.
        """
        self._worker_of(name, embeds=None)

    def model_state(self, name: str) -> ModelState:
        """How far the loading of a model is. A state of None means that nobody has asked for it yet."""
        key = str(self._catalog.resolve(name).path)
        with self._lock:
            worker, error = self._workers.get(key), self._failed.get(key)
        if worker is not None:
            return ModelState(worker.state, worker.progress, worker.error)
        return ModelState("failed" if error else None, 0.0, error)

    def loads(self) -> list[ModelLoad]:
        """How busy each model is that has been asked for."""
        with self._lock:
            workers = list(self._workers.values())
        return [worker.load() for worker in workers]

    def wait_for_model(self, name: str, timeout: float | None = None) -> None:
        """Load a model and wait until it is ready.

        Raises:
            TimeoutError: not within `timeout` seconds; loading goes on.
            AtelicoError: it cannot be loaded.
        """
        worker = self._worker_of(name, embeds=None)
        if not worker.wait(timeout):
            raise TimeoutError(f"{name} was not loaded within {timeout} seconds.")
        if worker.error is not None:
            raise worker.error

    def save_prefix(self, model: str, messages: Sequence[Mapping[str, Any]], path: str | Path) -> int:
        """Read `messages` and write the model's memory after them to `path`, for `load_prefix` to take in later.

        A game can so ship a character's description already read. Every request whose messages begin with these
        then starts from there.

        Returns:
            Tokens saved.

        Raises:
            PrefixError: the messages are too short to be kept, or the file cannot be written.
            AtelicoError: as a request with these messages.
        """
        request = decode_request({"model": model, "messages": messages, "max_tokens": 1})
        self.chat_completion(request)
        return self._worker(model).save_prefix(request.messages, Path(path))

    def load_prefix(self, model: str, path: str | Path) -> int:
        """Take a saved prefix into the memory of `model`, which is loaded where it is not yet. Waits for both.

        Returns:
            Tokens taken in.

        Raises:
            PrefixError: the file is damaged, or belongs to another model or version; nothing has changed then.
            AtelicoError: the model cannot be loaded.
        """
        return self._worker(model).load_prefix(Path(path))

    def unload_model(self, name: str, timeout: float | None = None) -> bool:
        """End the requests of a model and free its memory. False when it was not loaded or `timeout` seconds passed."""
        key = str(self._catalog.resolve(name).path)
        with self._lock:
            worker = self._workers.pop(key, None)
        return worker is not None and worker.close(timeout)

    def _remotes(self) -> Remotes:
        try:
            from atelico.remote.client import Remotes  # only here: most games have no use for an HTTP client
        except ImportError:
            raise ConfigError(
                "remote:: models need httpx, which is not installed.",
                hint="Install atelico[server], or make the bundle with --remote.",
            ) from None

        with self._lock:
            if self._closed:
                raise ShuttingDownError("The engine is closed.", hint="Make a new Engine.")
            if self._remote_side is None:
                self._remote_side = Remotes(self.config.remotes, self._answer_locally)
            return self._remote_side

    def _answer_locally(self, job: Job, model: str) -> None:
        """Have a job that was meant for elsewhere answered by a model of this machine."""
        worker = self._worker(model)
        if job.redirect(msgspec.structs.replace(job.request, model=model), worker.cancel):
            worker.submit(job)
        else:
            end_unstarted(job)

    def _worker(self, name: str) -> ModelWorker:
        """The worker of a chat model, made where there is none."""
        worker = self._worker_of(name, embeds=False)
        assert isinstance(worker, ModelWorker)
        return worker

    def _embedding_worker(self, name: str) -> EmbeddingWorker:
        """The worker of an embedding model, made where there is none."""
        worker = self._worker_of(name, embeds=True)
        assert isinstance(worker, EmbeddingWorker)
        return worker

    def _worker_of(self, name: str, *, embeds: bool | None) -> _Worker:
        """The worker of a model, made where there is none. `embeds`: the kind that is wanted, None for either.

        A chat does not wait here until the file's header is read: loading an embedding model for it fails soon enough.
        """
        ref = self._catalog.resolve(name)
        key = str(ref.path)
        while True:
            with self._lock:
                running = self._running(key)
            if running is None:
                is_embedding = embeds is not False and _is_embedding(ref.path)
                if embeds and not is_embedding:
                    raise _wrong_kind(name, is_embedding=False)
                running = self._start(ref, is_embedding=is_embedding)
            is_embedding = isinstance(running, EmbeddingWorker)
            if embeds is None or embeds == is_embedding:
                return running
            if is_embedding or not _is_embedding(ref.path):
                raise _wrong_kind(name, is_embedding=is_embedding)
            running.wait()  # a chat asked for this embedding model, and its loading is about to fail
            if running.error is None:
                raise _wrong_kind(name, is_embedding=False)

    def _start(self, ref: ModelRef, *, is_embedding: bool) -> _Worker:
        """A new worker, or the one that somebody else has started meanwhile."""
        key = str(ref.path)
        with self._lock:
            worker = self._running(key)
            if worker is not None:
                return worker
            # A file that could not be loaded is tried again: it may have been mended meanwhile.
            self._failed.pop(key, None)
            if is_embedding:
                worker = self._workers[key] = EmbeddingWorker(ref, self.config, self._forget)
            else:
                drafter = functools.partial(find_drafter, ref.path, self.config.drafters, self._catalog)
                worker = self._workers[key] = ModelWorker(ref, self.config, self._forget, drafter)
            return worker

    def _running(self, key: str) -> _Worker | None:
        """The worker there is; the caller holds the lock."""
        if self._closed:
            raise ShuttingDownError("The engine is closed.", hint="Make a new Engine.")
        worker = self._workers.get(key)
        return worker if worker is not None and worker.error is None else None

    def _forget(self, failed: _Worker) -> None:
        key = str(failed.ref.path)
        with self._lock:
            if self._workers.get(key) is failed:
                del self._workers[key]
                if failed.error is not None:
                    self._failed[key] = failed.error

    # --- end --------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> bool:
        """End every request in ShuttingDownError and free all models. Safe to call twice.

        Args:
            timeout: seconds to wait at most.

        Returns:
            Whether everything has ended.
        """
        atexit.unregister(self._at_exit)
        with self._lock:
            self._closed = True
            workers, self._workers = list(self._workers.values()), {}
            remotes = self._remote_side
        deadline = None if timeout is None else time.monotonic() + timeout
        owners: list[_Worker | Remotes] = [*workers, *([remotes] if remotes is not None else [])]
        ended = [owner.close(None if deadline is None else max(0.0, deadline - time.monotonic())) for owner in owners]
        return all(ended)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_embedding(path: Path) -> bool:
    """Whether the file says so. One that cannot be read is left to the worker, whose error says why."""
    try:
        return read_gguf(path).is_embedding
    except AtelicoError:
        return False


def _wrong_kind(name: str, *, is_embedding: bool) -> AtelicoError:
    if is_embedding:
        return ModelLoadError(
            f"{name} is an embedding model: it cannot chat.",
            param="model",
            hint="Use a chat model; this one embeds texts.",
        )
    return InvalidRequestError(
        f"{name} is a chat model: it gives no embeddings.",
        param="model",
        code="unsupported_model",
        hint="Use an embedding model.",
    )


def _close_at_exit(reference: weakref.ref[Engine]) -> None:
    engine = reference()
    if engine is not None:
        engine.close(timeout=10.0)
