"""The decode loop of one model: the only code that calls llama.cpp while requests run.

Owned by one thread. Other threads reach it through `submit` (an inbox) and `close` (a flag), nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from atelico._native import AbortFlag
from atelico.decoding.answer import RequestFacts, completion, end_unstarted, finish_event, progress_event
from atelico.decoding.lane import Lane
from atelico.decoding.round import Turn, decode, plan_round, verify
from atelico.errors import AtelicoError, InferenceError, InternalError, ShuttingDownError
from atelico.job import Job
from atelico.runtime.context import Context
from atelico.runtime.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@dataclass
class Group:
    """The lanes of one job: they start together where lanes are free, and end in one response."""

    job: Job
    lanes: list[Lane]
    facts: RequestFacts


class DecodeLoop:
    """Runs lanes until it is closed."""

    def __init__(self, context: Context, vocabulary: Vocabulary, abort: AbortFlag) -> None:
        """`abort`: the flag `context` was made with; whoever cancels raises it, this loop lowers it."""
        self._abort = abort
        self._context = context
        self._vocabulary = vocabulary
        self._inbox: queue.SimpleQueue[Group | None] = queue.SimpleQueue()
        self._groups: dict[str, Group] = {}
        self._waiting: deque[Lane] = deque()
        self._running: list[Lane] = []
        self._free = list(range(context.n_lanes))
        self._closing = False

    # --- from other threads -----------------------------------------------------------------------------------

    def submit(self, group: Group) -> None:
        """Queue the lanes of a job."""
        self._inbox.put(group)

    def close(self) -> None:
        """Make `run` end every job and return after the current forward pass."""
        self._closing = True
        self._inbox.put(None)

    # --- the decode thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Decode until closed. Every job submitted before gets its ending."""
        with ThreadPoolExecutor(1, thread_name_prefix="atelico-masks") as helper:
            while not self._closing:
                self._receive()
                # Lowered before looking: a cancel that comes later raises it again and stops the pass below.
                self._abort.clear()
                if self._closing:
                    break
                self._drop_cancelled()
                self._admit()
                if self._running:
                    self._round(helper)
        self._end_all(ShuttingDownError("The engine was closed while the request ran."))

    def _receive(self) -> None:
        """Take what has arrived; sleep in here while there is nothing to do."""
        idle = not self._running and not self._waiting
        with contextlib.suppress(queue.Empty):
            while True:
                group = self._inbox.get(block=idle)
                idle = False
                if group is None:
                    return
                self._groups[group.job.id] = group
                self._waiting.extend(group.lanes)

    def _drop_cancelled(self) -> None:
        for group in [group for group in self._groups.values() if group.job.cancelled]:
            for lane in group.lanes:
                if lane.finish_reason is None:
                    lane.finish("cancelled")
            self._waiting = deque(lane for lane in self._waiting if lane.job is not group.job)
            if any(lane in self._running for lane in group.lanes):
                self._settle()
            else:
                del self._groups[group.job.id]
                end_unstarted(group.job)

    def _admit(self) -> None:
        while self._waiting and self._free:
            lane = self._waiting.popleft()
            lane.sequence = self._free.pop()
            self._context.clear(lane.sequence)
            lane.clock.admitted_at = time.perf_counter()
            self._running.append(lane)

    def _round(self, helper: ThreadPoolExecutor) -> None:
        turns = plan_round(self._running, self._context)
        try:
            logits = decode(turns, self._context, helper)
        except InferenceError as error:
            self._fail([turn.lane for turn in turns], error)
            return
        if logits is None:  # aborted: nothing was committed, and whoever aborted has set a flag
            return
        first_output = 0
        for turn in turns:
            rows = logits[first_output : first_output + turn.n_outputs]
            first_output += turn.n_outputs
            try:
                verify(turn, rows, self._vocabulary)
                self._roll_back(turn)
                self._publish(turn.lane)
            except AtelicoError as error:
                self._fail([turn.lane], error)
            except Exception:
                logger.exception("a defect ended request %s", turn.lane.job.id)
                self._fail([turn.lane], InternalError("The request failed for a defect of atelico; see the log."))
        self._settle()

    def _roll_back(self, turn: Turn) -> None:
        """Take rejected drafts out of memory. Never carry on with a memory that could not be cut."""
        lane = turn.lane
        if turn.draft and not self._context.truncate(lane.sequence, lane.n_cached):
            raise InferenceError("The memory of the model could not roll back a rejected draft.")

    def _publish(self, lane: Lane) -> None:
        """Hand the round's text to the caller: one event, however many tokens were accepted."""
        if lane.finish_reason is not None:
            lane.complete_text()
        content, reasoning = lane.take_text()
        if content or reasoning:
            lane.job.push(progress_event(lane, content, reasoning))

    def _settle(self) -> None:
        """Free the lanes that have finished, and answer the jobs that have no other."""
        for lane in [lane for lane in self._running if lane.finish_reason is not None]:
            if lane.finish_reason == "cancelled":
                self._publish(lane)
            self._release(lane)
            group = self._groups[lane.job.id]
            lane.job.push(finish_event(lane))
            if all(other.finish_reason is not None for other in group.lanes):
                del self._groups[lane.job.id]
                answer = completion(lane.job, group.lanes, group.facts)
                _log_answer(lane.job, group.lanes)
                lane.job.end(answer)

    def _release(self, lane: Lane) -> None:
        """Give the sequence back, holding exactly the tokens that were returned."""
        self._running.remove(lane)
        self._free.append(lane.sequence)
        if self._context.recurrent or not self._context.truncate(lane.sequence, lane.n_cached):
            self._context.clear(lane.sequence)

    def _fail(self, lanes: list[Lane], error: AtelicoError) -> None:
        """End the jobs of `lanes` in `error`; their other lanes stop too. The next request finds a clean memory."""
        for job in {lane.job.id: lane.job for lane in lanes}.values():
            group = self._groups.pop(job.id, None)
            if group is None:
                continue
            for lane in group.lanes:
                if lane in self._running:
                    self._release(lane)
                    self._context.clear(lane.sequence)
            self._waiting = deque(lane for lane in self._waiting if lane.job is not job)
            job.end(error)

    def _end_all(self, error: AtelicoError) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                group = self._inbox.get_nowait()
                if group is not None:
                    group.job.end(error)
        for group in list(self._groups.values()):
            group.job.end(error)
        self._groups.clear()


def _log_answer(job: Job, lanes: list[Lane]) -> None:
    """The one log line of a request."""
    plan, stats = lanes[0].plan, [lane.stats for lane in lanes]
    speculation = (
        f"{plan.proposer}: accepted {sum(s.accepted for s in stats)} of {sum(s.proposed for s in stats)} draft tokens"
        if plan.reason is None
        else f"no speculation ({plan.reason})"
    )
    logger.info(
        "%s %s: %d prompt and %d output tokens, %s, %s",
        job.id,
        job.request.model,
        lanes[0].n_prompt,
        sum(lane.n_output for lane in lanes),
        "/".join(str(lane.finish_reason) for lane in lanes),
        speculation,
    )
