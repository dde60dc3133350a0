"""The decode loop of one model: the only code that calls llama.cpp while requests run.

Owned by one thread. Other threads reach it through `submit` (an inbox) and `close` (a flag), nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar, cast

from atelico._native import AbortFlag
from atelico.decoding.answer import RequestFacts, completion, end_unstarted, finish_event, progress_event
from atelico.decoding.lane import Lane
from atelico.decoding.load import LoopLoad
from atelico.decoding.loaded import LoadedModel
from atelico.decoding.near_tie import NoiseGauge
from atelico.decoding.round import Turn, decode, plan_round, verify
from atelico.decoding.sequences import SequencePool
from atelico.errors import AtelicoError, InferenceError, InternalError, MemoryFullError, ShuttingDownError
from atelico.job import Job
from atelico.runtime import kernels
from atelico.runtime.context import Logits
from atelico.runtime.thread_follower import PassTimer, ThreadFollower
from atelico.runtime.threads import lower_priority
from atelico.speculation.draft import Draft
from atelico.speculation.pass_cost import NONE

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass
class Call:
    """Something to be done on the decode thread between two rounds."""

    function: Callable[[], object]
    result: Future[object]


@dataclass
class Group:
    """The lanes of one job: they start together where lanes are free, and end in one response."""

    job: Job
    lanes: list[Lane]
    facts: RequestFacts


class DecodeLoop:
    """Runs lanes until it is closed."""

    def __init__(self, loaded: LoadedModel, abort: AbortFlag) -> None:
        """`abort`: the flag the context was made with; whoever cancels raises it, this loop lowers it."""
        self._abort = abort
        self._context = loaded.context
        self._vocabulary = loaded.model.vocabulary
        self._governor = loaded.governor
        self._n_lanes = loaded.config.n_lanes
        self._prefill_chunk = loaded.config.prefill_chunk
        self._low_priority = loaded.config.low_priority
        self._inbox: queue.SimpleQueue[Group | Call | None] = queue.SimpleQueue()
        self._groups: dict[str, Group] = {}
        self._waiting: list[Lane] = []
        self._running: list[Lane] = []
        self._threads = ThreadFollower(loaded.context, loaded.n_threads)
        self._noise = NoiseGauge()
        self.sequences = SequencePool(loaded.context)
        self._closing = False

    # --- from other threads -----------------------------------------------------------------------------------

    def submit(self, group: Group) -> None:
        """Queue the lanes of a job."""
        self._inbox.put(group)

    def call(self, function: Callable[[], T]) -> T:
        """What `function` returns when the decode thread calls it between two rounds. Waits for that.

        Raises:
            ShuttingDownError: the loop ended before.
        """
        result: Future[object] = Future()
        self._inbox.put(Call(function, result))
        return cast("T", result.result())

    def close(self) -> None:
        """Make `run` end every job and return after the current forward pass."""
        self._closing = True
        self._inbox.put(None)

    def load(self) -> LoopLoad:
        """How busy the loop is; what is read here may be a round old."""
        running = list(self._running)
        return LoopLoad(
            n_jobs=len({lane.job.id for lane in running}),
            n_running=len(running),
            n_lanes=self._n_lanes,
            n_output=sum(lane.n_output for lane in running),
            n_kv_tokens=self.sequences.n_cells,
            n_kv_capacity=self._context.n_cells,
            n_threads=self._threads.n_threads,
            governor=self._governor.state(),
        )

    # --- the decode thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Decode until closed. Every job submitted before gets its ending."""
        if self._low_priority:
            lower_priority()
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
                if isinstance(group, Call):
                    _run(group)
                    continue
                self._groups[group.job.id] = group
                self._waiting.extend(group.lanes)
                self._waiting.sort(key=lambda lane: lane.priority)  # stable: first come, first served within one

    def _drop_cancelled(self) -> None:
        for group in [group for group in self._groups.values() if group.job.cancelled]:
            for lane in group.lanes:
                if lane.finish_reason is None:
                    lane.finish("cancelled")
            self._waiting = [lane for lane in self._waiting if lane.job is not group.job]
            if any(lane in self._running for lane in group.lanes):
                self._settle()
            elif any(lane.clock.admitted_at for lane in group.lanes):
                self._answer(group)  # some choices had finished, the others have waited for a free lane
            else:
                del self._groups[group.job.id]
                end_unstarted(group.job)

    def _admit(self) -> None:
        """Start waiting lanes while there are free ones and the memory has room, never out of turn."""
        while self._waiting and len(self._running) < self._n_lanes:
            lane = self._waiting[0]
            if self._running and (lane.alone or self._running[0].alone):
                return
            sequence = self.sequences.acquire(lane.tokens, lane.n_prompt + lane.max_tokens, reuse=lane.reuses)
            if sequence is None:
                return
            del self._waiting[0]
            lane.sequence = sequence
            lane.n_cached = lane.n_reused = len(sequence.tokens)
            lane.governor = self._governor.begin(lane.plan.proposer) if lane.governed and lane.plan.proposer else None
            lane.clock.admitted_at = time.perf_counter()
            self._running.append(lane)

    def _round(self, helper: ThreadPoolExecutor) -> None:
        turns = plan_round(self._running, self._context, self._governor, self._prefill_chunk)
        timer = PassTimer()
        try:
            logits = decode(turns, self._context, helper)
        except MemoryFullError as error:
            # Shared cells are counted by whom they belonged to, which may be a little off: park all idle ones once.
            if not self.sequences.park_idle():
                self._fail([turn.lane for turn in turns], error)
            return
        except InferenceError as error:
            self._fail([turn.lane for turn in turns], error)
            return
        if logits is None:  # aborted: nothing was committed, and whoever aborted has set a flag
            return
        if all(turn.n_fed == 1 for turn in turns):
            drafted = sum((turn.draft_rows for turn in turns), NONE)
            self._governor.observe_pass(len(turns), drafted, timer.wall())
            if drafted == NONE and self._threads.enabled:
                self._threads.observe(timer.wall(), timer.cpu())
        self._guard(turns)
        first_output = 0
        for turn in turns:
            self._finish_turn(turn, logits[first_output : first_output + turn.n_outputs])
            first_output += turn.n_outputs
        # Only now: the next pass overwrites the logits of this one.
        for turn in turns:
            if turn.undecided is not None and turn.lane in self._running:
                self._decide(turn.lane, turn.undecided, sum(turn.n_rows for turn in turns), helper)
        self._settle()
        self._pace(timer.wall())

    def _finish_turn(self, turn: Turn, rows: Logits) -> None:
        """Commit what `rows` say, forget the rest, tell the caller."""
        try:
            verify(turn, rows, self._vocabulary, self._governor)
            self._roll_back(turn)
            self._publish(turn.lane)
        except AtelicoError as error:
            self._fail([turn.lane], error)
        except Exception:
            logger.exception("a defect ended request %s", turn.lane.job.id)
            self._fail([turn.lane], InternalError("The request failed for a defect of atelico; see the log."))

    def _guard(self, turns: list[Turn]) -> None:
        """Say which gaps are near ties in this pass: none with our kernels. Recurrent memory cannot go back for one."""
        n_rows = sum(turn.n_rows for turn in turns)
        if n_rows == 1 or self._context.recurrent or self._context.n_exact == kernels.EVERY_WIDTH:
            return
        n_cells = self._n_cells_used()
        for turn in turns:
            if turn.lane.guarded and turn.n_fed == 1 and turn.samples:
                turn.near_tie = self._noise.threshold(n_rows, n_cells)

    def _decide(self, lane: Lane, batched: Logits, n_rows: int, helper: ThreadPoolExecutor) -> None:
        """Decode the pending token of `lane` on its own, as plain decoding does, and commit what its row says."""
        lane.stats.near_ties += 1
        turn = Turn(lane, 1, Draft(), samples=True)
        try:
            logits = decode([turn], self._context, helper)
        except InferenceError as error:
            self._fail([lane], error)
            return
        if logits is not None:  # else aborted: the token is still pending
            self._noise.observe(n_rows, self._n_cells_used(), batched, logits[0])
            self._finish_turn(turn, logits)

    def _n_cells_used(self) -> int:
        """Cells of the memory that hold tokens, about."""
        kept = sum(len(self.sequences.cached_tokens(i)) for i in range(self._context.n_sequences))
        return kept + sum(lane.n_cached - lane.n_reused for lane in self._running)

    def _pace(self, busy: float) -> None:
        """Sleep so that decoding takes no larger share of the time than the most modest lane allows."""
        duty = min((lane.duty for lane in self._running), default=1.0)
        if duty < 1.0:
            time.sleep(busy * (1.0 / duty - 1.0))

    def _roll_back(self, turn: Turn) -> None:
        """Take rejected drafts out of memory. Never carry on with a memory that could not be cut."""
        lane = turn.lane
        assert lane.sequence is not None
        if (turn.draft or turn.undecided is not None) and not self._context.truncate(lane.sequence.id, lane.n_cached):
            raise InferenceError("The memory of the model could not roll back a rejected draft.")

    def _publish(self, lane: Lane) -> None:
        """Hand the round's text to the caller: one event, however many tokens were accepted."""
        if lane.finish_reason is not None:
            lane.complete_text()
        (content, reasoning), calls = lane.take_text(), lane.take_calls()
        if content or reasoning or calls:
            lane.job.push(progress_event(lane, content, reasoning, calls))

    def _settle(self) -> None:
        """Free the lanes that have finished, and answer the jobs that have no other."""
        finished = [lane for lane in self._running if lane.finish_reason is not None]
        for lane in finished:
            if lane.finish_reason == "cancelled":
                self._publish(lane)
            self._release(lane)
            lane.job.push(finish_event(lane))
        # Only now: several lanes of one job may have finished in the same round.
        for job in {lane.job.id: lane.job for lane in finished}.values():
            group = self._groups[job.id]
            if all(lane.finish_reason is not None for lane in group.lanes):
                self._answer(group)

    def _answer(self, group: Group) -> None:
        """End a job whose lanes have all finished."""
        del self._groups[group.job.id]
        answer = completion(group.job, group.lanes, group.facts)
        _log_answer(group.job, group.lanes)
        group.job.end(answer)

    def _release(self, lane: Lane) -> None:
        """Give the sequence back, holding exactly what was returned of it, for the next request to continue."""
        assert lane.sequence is not None
        self._running.remove(lane)
        lane.close_drafter()
        if lane.governor is not None:
            self._governor.end(lane.governor)
        self.sequences.release(lane.sequence, lane.tokens[: lane.n_cached])

    def _fail(self, lanes: list[Lane], error: AtelicoError) -> None:
        """End the jobs of `lanes` in `error`; their other lanes stop too. The next request finds a clean memory."""
        for job in {lane.job.id: lane.job for lane in lanes}.values():
            group = self._groups.pop(job.id, None)
            if group is None:
                continue
            for lane in group.lanes:
                if lane in self._running:
                    self._running.remove(lane)
                    lane.close_drafter()
                    assert lane.sequence is not None
                    self.sequences.forget(lane.sequence)  # its memory may hold what was never committed
            self._waiting = [lane for lane in self._waiting if lane.job is not job]
            job.end(error)

    def _end_all(self, error: AtelicoError) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                group = self._inbox.get_nowait()
                if isinstance(group, Call):
                    group.result.set_exception(error)
                elif group is not None:
                    group.job.end(error)
        for group in list(self._groups.values()):
            group.job.end(error)
        self._groups.clear()


def _run(call: Call) -> None:
    try:
        call.result.set_result(call.function())
    except BaseException as error:
        call.result.set_exception(error)


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
