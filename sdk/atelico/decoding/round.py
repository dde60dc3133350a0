"""One round: plan, decode, verify, commit, roll back. Exactness rests on this file.

Every lane puts `[pending token, draft...]` into one batch with logits on every row; its rows are then sampled one after
the other through the lane's own sampler and grammar until a sample differs from the draft (sample-and-match). Each
sample sees the same history as in plain decoding, so speculation changes the speed and never the answer. Only where the
request asks for stochastic acceptance is a drafted row decided by that rule, which keeps the distribution instead. Rows
before a token that the grammar forces need no logits, which spares most of their cost where the vocabulary is large.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field

import numpy as np

from atelico._native import Sampled
from atelico.decoding.lane import Lane
from atelico.errors import InferenceError
from atelico.protocol.response import TokenLogprob, TopLogprob
from atelico.runtime.context import Context, Logits, Row
from atelico.runtime.vocabulary import Vocabulary
from atelico.speculation.acceptance import Mask, sampled_as, verified
from atelico.speculation.compose import compose
from atelico.speculation.draft import GRAMMAR, Draft
from atelico.speculation.governor import Governor
from atelico.speculation.pass_cost import DraftRows

logger = logging.getLogger(__name__)

_SIMPLIFY = "Simplify the schema."


@dataclass
class Turn:
    """A lane's part of one round: the pending tokens it feeds and the draft after them.

    `guess`: what was proposed, of which `draft` is the part that the governor found worth verifying.
    `samples`: whether the last pending token is among them, so that the round ends in new tokens.
    `blind`: whether rows that decide a forced token are computed without logits.
    `near_tie`: the gap, in logits, below which a row does not decide; `undecided`: the row where that happened.
    """

    lane: Lane
    n_fed: int
    draft: Draft
    samples: bool
    guess: Draft = field(default_factory=Draft)
    blind: bool = False
    masks: Future[Mask] | None = None
    near_tie: float = 0.0
    undecided: Logits | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the batch."""
        return self.n_fed + len(self.draft)

    @property
    def n_outputs(self) -> int:
        """Rows with logits: the last pending token and every draft token, but for those that decide nothing."""
        return 1 + self.draft_rows.full if self.samples else 0

    @property
    def draft_rows(self) -> DraftRows:
        """The draft's part of the pass: as many blind rows as it has tokens that blind rows decide."""
        n_blind = self.draft.n_forced if self.blind else 0
        return DraftRows(len(self.draft) - n_blind, n_blind)

    def is_blind(self, i: int) -> bool:
        """Whether the row that decides the `i`-th token of this turn has no logits."""
        return self.blind and i < len(self.draft) and self.draft.sources[i] == GRAMMAR


def plan_round(lanes: Sequence[Lane], context: Context, governor: Governor, prefill_chunk: int) -> list[Turn]:
    """Which tokens each lane feeds: decoding lanes first, then prompts as the batch has room, the urgent ones first.

    While lanes decode, at most `prefill_chunk` prompt tokens are read per round, so that they keep their pace. Every
    limit at whose crossing llama.cpp aborts the process bounds the plan here: rows and outputs of a batch, the length
    of a sequence, and the depth to which recurrent memory can be rolled back.
    """
    rows_left, outputs_left = context.n_batch, context.n_outputs
    turns: list[Turn] = []
    drafted = DraftRows()
    decoding = [lane for lane in lanes if lane.is_decoding]
    # Rows that stay exact; where the lanes alone are more, or no width is exact, drafts change nothing about that.
    exact_left = context.n_exact if 1 < context.n_exact >= len(decoding) else context.n_batch
    for i, lane in enumerate(decoding):
        waiting = len(decoding) - i - 1  # lanes after this one need a row and an output each
        budget = min(
            lane.n_draftable,
            lane.n_remaining - 1,
            context.n_ctx - len(lane.tokens),
            rows_left - 1 - waiting,
            outputs_left - 1 - waiting,
            context.n_rollback,
            exact_left - 1 - waiting if lane.guarded else context.n_batch,
        )
        guess = draft = _guess(lane, budget, context.n_vocab, governor, len(decoding))
        blind = _can_be_blind(lane, context)
        if guess and lane.governor is not None:
            draft = guess.head(governor.choose(lane.governor, guess, len(decoding), drafted, blind=blind))
        turn = Turn(lane, lane.n_pending, draft, samples=True, guess=guess, blind=blind)
        turns.append(turn)
        drafted += turn.draft_rows
        exact_left -= turn.n_rows
        rows_left -= turn.n_rows
        outputs_left -= turn.n_outputs
    if decoding:
        rows_left = min(rows_left, prefill_chunk)
    for lane in sorted(lanes, key=lambda lane: lane.priority):
        if lane.is_decoding or rows_left <= 0:
            continue
        n_fed = min(lane.n_pending, rows_left)
        samples = n_fed == lane.n_pending
        if samples and outputs_left <= 0:
            n_fed, samples = n_fed - 1, False
        if n_fed > 0:
            turns.append(Turn(lane, n_fed, Draft(), samples))
            rows_left -= n_fed
            outputs_left -= samples
    return turns


def _can_be_blind(lane: Lane, context: Context) -> bool:
    """Whether nothing but the choice of the token needs a row's logits, and a row without them could be repeated."""
    reads_rows = lane.n_logprobs is not None or (lane.drafter is not None and lane.drafter.reads_hidden)
    return lane.matcher is not None and lane.trusts_forced and not reads_rows and not context.recurrent


def _guess(lane: Lane, budget: int, n_vocab: int, governor: Governor, n_lanes: int) -> Draft:
    """The lane's draft, cut at the first token that is none: llama.cpp refuses a whole batch for one such id."""
    if budget <= 0:
        return Draft()
    # What a grammar forces is worth asking for at any price of a row with logits.
    if lane.governor is not None and lane.matcher is None and not governor.may_pay(lane.governor, budget, n_lanes):
        return Draft()
    n_affordable = min(budget, lane.plan.k) if lane.drafter is not None else 0
    if lane.drafter is not None and lane.governor is not None:
        n_affordable = governor.afford(lane.governor, lane.drafter.network, n_affordable, n_lanes)
    started = time.perf_counter()
    try:
        draft = compose(lane.proposers, lane.matcher, budget, lane.drafter, n_affordable, min(budget, lane.plan.k))
        if lane.drafter is not None and lane.stats.rounds:  # the first draft reads the prompt, too
            source = lane.drafter.network.source
            governor.observe_drafting(source, draft.sources.count(source), time.perf_counter() - started)
        return draft.head(next((i for i, token in enumerate(draft.tokens) if not 0 <= token < n_vocab), len(draft)))
    except Exception:
        _drop_proposers(lane)
        return Draft()


def _observe(lane: Lane, tokens: Sequence[int]) -> None:
    """Show the proposers what was committed."""
    try:
        for proposer in lane.proposers:
            proposer.observe(tokens)
        if lane.drafter is not None:
            lane.drafter.observe(tokens)
    except Exception:
        _drop_proposers(lane)


def _show_hidden(turns: Sequence[Turn], context: Context) -> None:
    """Show drafters that go by them the hidden states of the pass that has just been made."""
    first_row = 0
    for turn in turns:
        lane = turn.lane
        if lane.drafter is not None and lane.drafter.reads_hidden:
            try:
                lane.drafter.read(lane.n_cached, context.hidden(first_row, turn.n_rows))
            except Exception:
                _drop_proposers(lane)
        first_row += turn.n_rows


def _drop_proposers(lane: Lane) -> None:
    """Go on plainly after a defect in a proposer, which is being handled as an exception."""
    lane.plan = lane.plan.failed()
    lane.proposers = []
    lane.close_drafter()


def decode(turns: Sequence[Turn], context: Context, helper: Executor) -> Logits | None:
    """One forward pass over all turns. Grammar masks are computed by `helper` meanwhile; both release the GIL.

    Returns:
        The logits of all turns' outputs in order, or None when the pass was aborted.
    """
    rows: list[Row] = []
    for turn in turns:
        lane, first = turn.lane, turn.lane.n_cached
        tokens = [*lane.tokens[first : first + turn.n_fed], *turn.draft.tokens]
        assert lane.sequence is not None
        for i, token in enumerate(tokens):
            decides = i - (turn.n_fed - 1)  # the token of this turn that the row decides
            wants_logits = turn.samples and decides >= 0 and not turn.is_blind(decides)
            rows.append(Row(token, first + i, lane.sequence.id, wants_logits))
        if lane.matcher is not None and turn.samples:
            turn.masks = helper.submit(lane.matcher.masks, list(turn.draft.tokens))
    try:
        logits = context.decode(rows)
        if logits is not None:
            _show_hidden(turns, context)
        return logits
    finally:
        masks = [turn.masks for turn in turns if turn.masks is not None]
        if masks:
            wait(masks)  # nobody else may touch a matcher meanwhile


def verify(turn: Turn, logits: Logits, vocabulary: Vocabulary, governor: Governor) -> None:
    """Sample the rows of `turn` in order and commit each sample, until one differs from the draft or the lane ends.

    A row whose best two candidates are a near tie commits nothing: `turn.undecided` is a copy of it, and the lane is
    left so that a pass of its pending token alone decides.

    Args:
        logits: of this turn's outputs, float32 [n_outputs, n_vocab].
    """
    lane, draft = turn.lane, turn.draft
    lane.n_cached += turn.n_fed
    if not turn.samples:
        return
    masks = turn.masks.result() if turn.masks is not None else None
    if draft:
        lane.stats.rounds += 1
        lane.stats.proposed += len(draft)
        lane.stats.proposed_by_source.update(draft.sources)
    n_before, ended = len(lane.tokens), False
    sampled: list[int] = []
    with_logits = iter(logits)
    for i in range(len(draft) + 1):
        is_blind = turn.is_blind(i)
        row = _blank(logits.shape[1]) if is_blind else next(with_logits)
        mask = masks[i] if masks is not None else None
        if mask is not None and not mask.any():
            raise InferenceError("The grammar engine failed: it has no mask for this position.", hint=_SIMPLIFY)
        sample = _sampled(turn, i, row, mask)
        if is_blind and sample.margin != math.inf:
            # A defect, since the grammar left a choice after all: the next pass decides it, with logits.
            logger.error("token %d of %s was taken for forced", lane.n_output, lane.job.id)
            lane.trusts_forced = False
            break
        if sample.margin < turn.near_tie:
            turn.undecided = row.copy()
            break
        if lane.closing is not None and sample.token not in vocabulary.eog:
            closing = _closed(lane, sample, row)
            if closing is None:
                lane.finish("length")
                ended = True
                break
            sample = closing
        sampled.append(sample.token)
        if ended := sample.token in vocabulary.eog:
            lane.finish("stop")
            break
        _commit(lane, sample, vocabulary)
        matched = i < len(draft) and sample.token == draft.tokens[i]
        if matched:
            lane.stats.accepted += 1
            lane.stats.accepted_by_source[draft.sources[i]] += 1
        if not matched or lane.finish_reason is not None:
            break
    # As in plain decoding, the last committed token stays pending, even where it was an accepted draft token.
    lane.n_cached = len(lane.tokens) - (0 if ended else 1)
    if lane.governor is not None and turn.guess:
        governor.observe_draft(lane.governor, turn.guess, sampled, len(draft))
    _observe(lane, lane.tokens[n_before:])


def _sampled(turn: Turn, i: int, row: Logits, mask: Mask | None) -> Sampled:
    """What comes where `row` says what follows draft[:i]."""
    lane, draft = turn.lane, turn.draft
    if lane.stochastic and i < len(draft) and not turn.is_blind(i):
        token, shares = draft.tokens[i], draft.distributions[i]
        return verified(lane.sampler, row, mask, token, shares, position=lane.n_output, n_logprobs=lane.n_logprobs)
    return lane.sampler.sample(row, mask, position=lane.n_output, n_logprobs=lane.n_logprobs)


@functools.cache
def _blank(n_vocab: int) -> Logits:
    """The row of a token that the mask alone decides."""
    return np.zeros(n_vocab, np.float32)


def _closed(lane: Lane, sample: Sampled, row: Logits) -> Sampled | None:
    """`sample`, or the token that ends the document in its place; None where the document ends before it."""
    assert lane.closing is not None and lane.matcher is not None
    token = lane.closing.choose(lane.matcher, sample.token, lane.n_remaining)
    if token is None or token == sample.token:
        return sample if token is not None else None
    return sampled_as(lane.sampler, row, token, position=lane.n_output, n_logprobs=lane.n_logprobs)


def _commit(lane: Lane, sample: Sampled, vocabulary: Vocabulary) -> None:
    """`sample` is part of the answer: history, grammar, text and limits take note of it."""
    if not lane.clock.first_token_at:
        lane.clock.first_token_at = time.perf_counter()
    lane.tokens.append(sample.token)
    lane.sampler.accept(sample.token)
    if lane.matcher is not None:
        lane.matcher.consume(sample.token)
    if lane.n_logprobs is not None:
        lane.logprobs.append(_logprob(sample, vocabulary))
    lane.add_text(lane.text.feed(lane.markers.get(sample.token) or vocabulary.piece(sample.token)))
    if lane.text.stopped or (lane.matcher is not None and lane.matcher.is_complete):
        lane.finish("length" if lane.closing is not None and lane.closing.closed_early else "stop")
    elif lane.n_remaining <= 0:
        lane.finish("length")


def _logprob(sample: Sampled, vocabulary: Vocabulary) -> TokenLogprob:
    def described(token: int) -> tuple[str, list[int]]:
        piece = vocabulary.piece(token)
        return piece.decode(errors="replace") or vocabulary.text(token), list(piece)

    token, data = described(sample.token)
    assert sample.logprob is not None
    return TokenLogprob(
        token=token,
        logprob=sample.logprob,
        bytes=data,
        top_logprobs=[
            TopLogprob(token=text, logprob=logprob, bytes=content)
            for candidate, logprob in sample.top
            for text, content in (described(candidate),)
        ],
    )
