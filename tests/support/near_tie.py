"""The proof that two texts differ only because two candidates of one row were a near tie. No model of its own.

A row of logits has slightly different bits when it is computed alone and when it is computed in a batch. So greedy (or
seeded) text may differ where the two best candidates score almost the same. The proof replays both runs on a fresh
context, pass by pass with the same rows and with a memory that is cut where it must be, and then shows that

1. up to the row in question both memories hold exactly the common prefix;
2. each run chose what its own replayed row chooses, so no other state had a say;
3. the candidates of both runs differ, in both rows, by less than the kernels' logits of the two differ together, and
   by less than MAX_GAP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from atelico._native import gumbel
from atelico.decoding.loaded import LoadedModel
from atelico.protocol.read import decode_request
from atelico.runtime.context import Context, ContextOptions, Logits

from .observe import Passes, Run

# Above the largest gap seen at first flips (x86, SmolLM2 and Gemma 3, quantised): 0.305 logits.
MAX_GAP = 0.5

Scores = npt.NDArray[np.float64]


class NotANearTie(AssertionError):
    """The two texts differ for another reason than the kernels' noise."""


@dataclass(frozen=True)
class NearTie:
    """A proven near tie.

    Attributes:
        index: of the output token where the runs part.
        tokens: what the plain and the drafted run chose there.
        gaps: by how many logits (scores times temperature) each choice led the other one in its own row.
        noise: by how many logits the two kernels differ on the two candidates together.
    """

    index: int
    tokens: tuple[int, int]
    gaps: tuple[float, float]
    noise: float


@dataclass(frozen=True)
class Choice:
    """How a request turns a row into a token: the noise of its seed, and the tokens its grammar allows."""

    temperature: float
    seed: int
    mask: npt.NDArray[np.int32] | None = None

    def scores(self, row: Logits, position: int) -> Scores:
        """What the sampler maximises, in logits: the row, plus temperature times Gumbel noise."""
        scores = row.astype(np.float64)
        if self.temperature > 0:
            scores = scores + self.temperature * np.array(gumbel(self.seed, position, range(len(row))))
        if self.mask is not None:
            allowed = np.unpackbits(self.mask.view(np.uint8), bitorder="little")[: len(row)].astype(bool)
            scores = np.where(allowed, scores, -np.inf)
        return scores


def first_difference(plain: Run, drafted: Run) -> int | None:
    """Index of the first output token in which the runs differ; None where they are the same."""
    if plain.output == drafted.output and plain.finish_reason == drafted.finish_reason:
        return None
    shared = min(len(plain.output), len(drafted.output))
    return next((i for i in range(shared) if plain.output[i] != drafted.output[i]), shared)


def explained(loaded: LoadedModel, plain: Run, drafted: Run) -> NearTie | None:
    """None where the runs are the same, else the proof that they part at a near tie.

    Raises:
        NotANearTie: they part for another reason.
    """
    return None if first_difference(plain, drafted) is None else prove_near_tie(loaded, plain, drafted)


def prove_near_tie(loaded: LoadedModel, plain: Run, drafted: Run) -> NearTie:
    """Prove that `drafted` parts from `plain` at a near tie; both have the same options.

    Raises:
        NotANearTie: it does not; the message says what is wrong.
    """
    index = first_difference(plain, drafted)
    if index is None:
        raise NotANearTie("The runs do not differ.")
    if plain.prompt != drafted.prompt:
        raise NotANearTie("The runs have different prompts.")
    prefix = [*plain.prompt, *plain.output[:index]]
    choice = _choice(loaded, plain, index)
    plain_row = replay(loaded, plain.passes, prefix)
    drafted_row = replay(loaded, drafted.passes, prefix)
    eog = loaded.model.vocabulary.eog
    return judge(index, plain_row, drafted_row, choice, _chosen(plain, index), _chosen(drafted, index), eog)


def judge(
    index: int,
    plain_row: Logits,
    drafted_row: Logits,
    choice: Choice,
    plain_token: int | None,
    drafted_token: int | None,
    eog: frozenset[int],
) -> NearTie:
    """Whether two rows that chose differently are a near tie.

    Args:
        index: position of the output token, which keys the noise.
        plain_row, drafted_row: the same row by two kernels, float32 [n_vocab].
        choice: how it was sampled.
        plain_token, drafted_token: what the runs chose; None where they ended in a token of `eog`.

    Raises:
        NotANearTie: a run did not choose what its row chooses, or the two candidates are too far apart.
    """
    scores = choice.scores(plain_row, index), choice.scores(drafted_row, index)
    best = int(np.argmax(scores[0])), int(np.argmax(scores[1]))
    for name, token, found in (("plain", plain_token, best[0]), ("drafted", drafted_token, best[1])):
        if found != token and not (token is None and found in eog):
            raise NotANearTie(f"The {name} run chose {token} at output token {index}, but its row chooses {found}.")
    if best[0] == best[1]:
        raise NotANearTie(f"Both rows choose {best[0]} at output token {index}; the runs should not differ.")
    gaps = float(scores[0][best[0]] - scores[0][best[1]]), float(scores[1][best[1]] - scores[1][best[0]])
    noise = float(np.abs(plain_row.astype(np.float64) - drafted_row)[list(best)].sum())
    limit = min(noise, MAX_GAP)
    if max(gaps) > limit:
        raise NotANearTie(
            f"The candidates {best} of output token {index} are {max(gaps):.4f} logits apart; the kernels differ by "
            f"{noise:.4f} on them, and at most {MAX_GAP} is a near tie."
        )
    return NearTie(index, best, gaps, noise)


def replay(loaded: LoadedModel, passes: Passes, prefix: Sequence[int]) -> Logits:
    """The row of logits after `prefix` that a recorded run computed, computed again on a fresh context.

    Before each pass the memory is cut to the pass's first position, as it must be after rejected drafts.

    Raises:
        NotANearTie: the run did not compute this row, or its memory did not hold `prefix` then.
    """
    last = len(prefix) - 1
    context = _fresh_context(loaded)
    memory: list[int] = []
    try:
        for rows in passes:
            start = rows[0].position
            if start > len(memory):
                raise NotANearTie(f"The run left positions {len(memory)} to {start} of its memory empty.")
            memory[start:] = [row.token for row in rows]
            context.truncate(0, start)
            logits = context.decode([replace(row, sequence=0) for row in rows])
            outputs = [row.position for row in rows if row.wants_logits]
            # A rejected draft may have been at this position before the token that belongs there.
            if last in outputs and memory[: last + 1] == list(prefix):
                assert logits is not None
                row: Logits = logits[outputs.index(last)].copy()
                return row
        raise NotANearTie(f"The run never computed the row at position {last} after the common prefix.")
    finally:
        context.close()


def _fresh_context(loaded: LoadedModel) -> Context:
    used = loaded.context
    return Context(
        loaded.model,
        ContextOptions(
            n_ctx=used.n_ctx,
            n_cells=used.n_cells,
            n_batch=used.n_batch,
            n_sequences=1,
            n_outputs=used.n_outputs,
            n_threads=loaded.n_threads,
        ),
    )


def _chosen(run: Run, index: int) -> int | None:
    return run.output[index] if index < len(run.output) else None


def _choice(loaded: LoadedModel, run: Run, index: int) -> Choice:
    request = decode_request(run.request)
    for option in ("frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "top_k", "top_p"):
        assert getattr(request, option) is None, f"{option} is not part of the proof"
    assert request.temperature is not None
    mask = None
    if request.response_format is not None:
        grammar = loaded.grammars.compile(request.response_format)
        assert grammar is not None
        matcher = grammar.matcher()
        for token in run.output[:index]:
            matcher.consume(token)
        mask = matcher.masks()[0].copy()
    return Choice(request.temperature, request.seed or 0, mask)
