"""The two threads of one model. One loads it and decodes; the other prepares requests, so that tokenising a long prompt
or compiling a schema does not stall the lanes that run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from atelico._native import AbortFlag
from atelico.config import EngineConfig
from atelico.decoding import saved_prefix
from atelico.decoding.answer import RequestFacts, end_unstarted
from atelico.decoding.load import LoopLoad, ModelLoad, State
from atelico.decoding.loaded import LoadedModel, load
from atelico.decoding.loop import DecodeLoop, Group
from atelico.decoding.prepare import prefix_tokens, prepare
from atelico.decoding.saved_prefix import SavedPrefix
from atelico.errors import AtelicoError, CancelledError, InternalError, PrefixError, ShuttingDownError
from atelico.job import Job
from atelico.models.catalog import ModelRef
from atelico.models.gguf import read_gguf
from atelico.open_requests import OpenRequests
from atelico.protocol.request import Message
from atelico.speculation.drafters import FindDrafter

logger = logging.getLogger(__name__)


class ModelWorker:
    """A model from its first request to its unloading.

    Attributes:
        ref: which file it is.
        progress: share of the loading done, 0 to 1.
    """

    def __init__(
        self,
        ref: ModelRef,
        config: EngineConfig,
        on_failed: Callable[[ModelWorker], None],
        find_drafter: FindDrafter = lambda: None,
    ) -> None:
        """Start loading at once.

        Args:
            on_failed: called on the loading thread when that does not work.
            find_drafter: where the file of a draft model is; asked when a request first wants one.
        """
        self.ref = ref
        self.progress = 0.0
        self._config = config
        self._on_failed = on_failed
        self._find_drafter = find_drafter
        self._requests = OpenRequests[Job](ref.name, config.max_queue, lambda job: job.ended)
        self._settled = threading.Event()  # loaded, failed or closed
        self._abort = AbortFlag()
        self._loaded: LoadedModel | None = None
        self._loop: DecodeLoop | None = None
        self._threads = [
            threading.Thread(target=self._decode_thread, name=f"atelico-decode-{ref.name}", daemon=True),
            threading.Thread(target=self._prepare_thread, name=f"atelico-prepare-{ref.name}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def state(self) -> State:
        """Where in its life this model is."""
        if self._requests.closing:
            return "closed"
        if self._requests.error is not None:
            return "failed"
        return "ready" if self._loaded is not None else "loading"

    @property
    def error(self) -> AtelicoError | None:
        """Why loading failed."""
        return self._requests.error

    @property
    def loaded(self) -> LoadedModel | None:
        """The model once it is ready; for inspection, since its owner is the decode thread."""
        return self._loaded

    def load(self) -> ModelLoad:
        """How busy the model is."""
        busy = self._loop.load() if self._loop is not None else LoopLoad()
        return ModelLoad(self.ref.name, self.state, max(self._requests.count() - busy.n_jobs, 0), busy)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until loading has ended, well or badly. False when it has not within `timeout` seconds."""
        return self._settled.wait(timeout)

    def submit(self, job: Job) -> None:
        """Queue `job`; it always gets an ending.

        Raises:
            BusyError: too many requests are waiting.
            ShuttingDownError: the model is being unloaded.
        """
        self._requests.add(job)

    def cancel(self, job: Job) -> None:
        """`job` has been cancelled: interrupt the forward pass it may be in, or end it here if it waits."""
        if job.started:
            self._abort.set()
        else:
            end_unstarted(job)

    def save_prefix(self, messages: list[Message], path: Path) -> int:
        """Write the memory after `messages`, which a request has just read, to `path`; returns its tokens.

        Raises:
            PrefixError: it is too short, or this model's memory cannot be saved.
        """
        loaded, loop = self._ready()
        tokens = prefix_tokens(messages, loaded)
        state = None if loaded.context.recurrent else loop.call(lambda: loop.sequences.export(tokens))
        if state is None:
            raise PrefixError(
                f"The {len(tokens)} tokens of these messages are not kept in memory.",
                hint="Too short a prefix, one that does not fit, and recurrent memory cannot be saved.",
            )
        saved_prefix.write(path, SavedPrefix(tokens, state), self.ref.path)
        return len(tokens)

    def load_prefix(self, path: Path) -> int:
        """Take the memory in `path` in; returns its tokens.

        Raises:
            PrefixError: it does not belong here, is damaged, or there is no room.
        """
        loaded, loop = self._ready()
        prefix = saved_prefix.read(path, self.ref.path)
        if loaded.context.recurrent or not loop.call(lambda: loop.sequences.adopt(prefix.tokens, prefix.state)):
            raise PrefixError(
                f"The saved prefix {path} of {len(prefix.tokens)} tokens does not fit into the memory.",
                hint="Configure more kv_tokens.",
            )
        return len(prefix.tokens)

    def _ready(self) -> tuple[LoadedModel, DecodeLoop]:
        self._settled.wait()
        if self._requests.error is not None:
            raise self._requests.error
        assert self._loaded is not None and self._loop is not None
        return self._loaded, self._loop

    def close(self, timeout: float | None = None) -> bool:
        """End every job, stop the threads and free the model.

        Args:
            timeout: seconds to wait at most; the threads go on ending by themselves after that.

        Returns:
            Whether everything has ended.
        """
        self._requests.close()
        if self._loop is not None:
            self._loop.close()
        self._abort.set()
        deadline = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    # --- decode thread ----------------------------------------------------------------------------------------

    def _decode_thread(self) -> None:
        try:
            self._load()
        except AtelicoError as error:
            self._end_in(error)
            return
        except Exception as error:
            logger.exception("a defect kept %s from loading", self.ref.path)
            self._end_in(InternalError(f"Loading {self.ref.name} failed for a defect of atelico: {error}."))
            return
        assert self._loaded is not None and self._loop is not None
        self._settled.set()
        try:
            self._loop.run()
        except Exception:
            logger.exception("the decode loop of %s ended for a defect", self.ref.name)
            self._end_in(InternalError("The decode loop ended for a defect of atelico; see the log."))
        finally:
            self._threads[1].join()  # it may still tokenise with the vocabulary
            self._end_open(ShuttingDownError("The engine was closed while the request ran."))
            self._loaded.close()

    def _load(self) -> None:
        def on_progress(share: float) -> bool:
            self.progress = share
            return not self._requests.closing

        info = read_gguf(self.ref.path)
        loaded = load(info, self._config, on_progress, self._abort, self._find_drafter)
        logger.info(
            "loaded %s (%s, %s) in %.0f ms: context %d, %s",
            self.ref.name,
            info.architecture,
            info.quantization,
            loaded.load_ms,
            loaded.context.n_ctx,
            loaded.device,
        )
        self._loaded, self._loop = loaded, DecodeLoop(loaded, self._abort)
        if self._requests.closing:  # `close` may have come before there was a loop
            self._loop.close()

    def _end_in(self, error: AtelicoError) -> None:
        """Loading failed or decoding broke: everybody who waits gets `error`, and the engine forgets this worker."""
        if isinstance(error, CancelledError):
            error = ShuttingDownError("The engine was closed while the model was loading.")
        self._requests.fail(error)
        self._settled.set()
        self._on_failed(self)
        self._end_open(error)

    def _end_open(self, error: AtelicoError) -> None:
        for job in self._requests.drain():
            job.end(error)

    # --- prepare thread ---------------------------------------------------------------------------------------

    def _prepare_thread(self) -> None:
        while (job := self._requests.next()) is not None:
            self._settled.wait()
            if self._loaded is None or self._loop is None:
                return
            if job.start():
                self._prepare(job, self._loaded, self._loop)

    def _prepare(self, job: Job, loaded: LoadedModel, loop: DecodeLoop) -> None:
        try:
            lanes, warnings = prepare(job, loaded)
        except AtelicoError as error:
            job.end(error)
            return
        except Exception:
            logger.exception("a defect kept request %s from starting", job.id)
            job.end(InternalError("The request could not be prepared for a defect of atelico; see the log."))
            return
        facts = RequestFacts(loaded.device, self._load_ms_of(job, loaded), (*job.warnings, *warnings))
        loop.submit(Group(job, lanes, facts))

    def _load_ms_of(self, job: Job, loaded: LoadedModel) -> float:
        """How long `job` waited for the loading."""
        return round(max(0.0, min(loaded.load_ms, (loaded.ready_at - job.submitted_at) * 1000)), 3)
