"""One engine of a game. Two threads: intake takes requests, since finding a model's file may be slow; courier carries
events of all jobs to the mailbox."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from dataclasses import dataclass

from atelico.cabi.failure import failure_event
from atelico.cabi.mailbox import Kind, Mail, Mailbox
from atelico.cabi.models import ModelReports
from atelico.config import EngineConfig
from atelico.decoding.answer import end_unstarted
from atelico.engine import Engine
from atelico.errors import AtelicoError, InternalError
from atelico.job import Job
from atelico.protocol.base import encode
from atelico.protocol.read import decode_request

logger = logging.getLogger(__name__)

# How often the progress of a loading model is reported.
_REPORT_S = 0.03
# Mails between two reports, which look at every name.
_BATCH = 256


@dataclass(frozen=True)
class HostedJob:
    """A job and how its caller wants the answer: in chunks, or whole."""

    job: Job
    is_stream: bool


class HostedEngine:
    """An Engine between the mails of a game and the mailbox."""

    def __init__(self, handle: int, config: EngineConfig, mailbox: Mailbox) -> None:
        self._handle, self._mailbox = handle, mailbox
        self._engine = Engine(config)
        self._reports = ModelReports(handle, self._engine, mailbox)
        self._n_ready = 0
        self._has_run: set[str] = set()  # models that have produced something
        self._inbox: queue.SimpleQueue[Mail | None] = queue.SimpleQueue()
        self._woken: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards the three below
        self._waiting: set[int] = set()  # accepted, not yet submitted
        self._cancelled: set[int] = set()  # of these, the cancelled ones
        self._jobs: dict[int, HostedJob] = {}
        for name, run in (("intake", self._intake), ("courier", self._courier)):
            threading.Thread(target=run, name=f"atelico-{name}", daemon=True).start()

    def accept(self, mail: Mail) -> None:
        """Take one mail. Returns at once."""
        if mail.kind == Kind.CANCEL:
            self._cancel(mail.job)
            return
        if mail.kind in (Kind.STREAM, Kind.COMPLETE):
            with self._lock:
                self._waiting.add(mail.job)
        self._inbox.put(mail)

    def destroy(self) -> None:
        """End everything and tell the mailbox when it has ended. Returns at once."""
        threading.Thread(target=self._close, name="atelico-closing", daemon=True).start()

    def _close(self) -> None:
        try:
            self._inbox.put(None)
            self._engine.close()
            self._woken.put(None)
        except Exception:
            logger.exception("a defect kept an engine from closing")
        finally:
            self._mailbox.closed(self._handle)

    # --- intake -----------------------------------------------------------------------------------------------

    def _intake(self) -> None:
        timeout = None
        while True:
            for mail in self._next_mails(timeout):
                if mail is None:
                    return
                self._handle_mail(mail)
            timeout = _REPORT_S if self._follow_loading() else None

    def _follow_loading(self) -> bool:
        """Report on models. Returns whether one is loading, so that there is more to say soon."""
        self._reports.report()
        states = [load.state for load in self._engine.loads()]
        is_loading = "loading" in states
        if is_loading or states.count("ready") != self._n_ready:
            self._mailbox.guard_exit()
        self._n_ready = states.count("ready")
        return is_loading

    def _next_mails(self, timeout: float | None) -> list[Mail | None]:
        mails: list[Mail | None] = []
        with contextlib.suppress(queue.Empty):
            mails.append(self._inbox.get(timeout=timeout))
            while len(mails) < _BATCH:
                mails.append(self._inbox.get_nowait())
        return mails

    def _handle_mail(self, mail: Mail) -> None:
        if mail.kind in (Kind.STREAM, Kind.COMPLETE):
            self._submit(mail)
            return
        name = mail.text.decode()
        if mail.kind == Kind.LOAD:
            try:
                self._engine.load_model(name)
            except AtelicoError as error:
                logger.info("model %s: %s", name, error)  # what the model's state will say as well
            except Exception:
                logger.exception("a defect kept %s from loading", name)
        self._reports.watch(name, mail.ticket)

    def _submit(self, mail: Mail) -> None:
        try:
            job = self._new_job(mail)
        except AtelicoError as error:
            self._fail(mail.job, error)
            return
        except Exception:
            logger.exception("a defect kept a request from starting")
            self._fail(mail.job, InternalError("The request could not be started for a defect of atelico."))
            return
        with self._lock:
            self._jobs[mail.job] = HostedJob(job, mail.kind == Kind.STREAM)
            self._waiting.discard(mail.job)
            is_cancelled = mail.job in self._cancelled
            self._cancelled.discard(mail.job)
        if is_cancelled:
            job.cancel()
        job.subscribe(lambda: self._woken.put(mail.job))

    def _new_job(self, mail: Mail) -> Job:
        with self._lock:
            is_cancelled = mail.job in self._cancelled
        if is_cancelled:  # no reason to load a model
            return Job(decode_request(mail.text), on_cancel=end_unstarted)
        return self._engine.submit(mail.text)

    def _cancel(self, job_id: int) -> None:
        with self._lock:
            hosted = self._jobs.get(job_id)
            if job_id in self._waiting:
                self._cancelled.add(job_id)
        if hosted is not None:
            hosted.job.cancel()

    # --- courier ----------------------------------------------------------------------------------------------

    def _courier(self) -> None:
        while (job_id := self._woken.get()) is not None:
            with self._lock:
                hosted = self._jobs.get(job_id)
            if hosted is None:
                continue
            try:
                if self._carry(job_id, hosted):
                    self._mailbox.end(self._handle, job_id)
                    self._forget(job_id)
            except AtelicoError as error:
                self._fail(job_id, error)
            except Exception:
                logger.exception("a defect ended a request")
                hosted.job.cancel()
                self._fail(job_id, InternalError("The answer could not be delivered for a defect of atelico."))

    def _carry(self, job_id: int, hosted: HostedJob) -> bool:
        """Push what is there. Returns whether that was all."""
        job = hosted.job
        if hosted.is_stream:
            events = [encode(chunk) for chunk in job.ready_chunks()]
        else:
            events = [encode(job.result(0))] if job.ended else []
        if events and job.request.model not in self._has_run:
            self._has_run.add(job.request.model)
            self._mailbox.guard_exit()
        is_wanted = all(self._mailbox.push(self._handle, job_id, event) for event in events)
        if not is_wanted:
            job.cancel()
        return job.all_read if hosted.is_stream else job.ended

    def _fail(self, job_id: int, error: AtelicoError) -> None:
        self._mailbox.end(self._handle, job_id, error.c_result, failure_event(error), str(error))
        self._forget(job_id)

    def _forget(self, job_id: int) -> None:
        with self._lock:
            self._jobs.pop(job_id, None)
            self._waiting.discard(job_id)
            self._cancelled.discard(job_id)
