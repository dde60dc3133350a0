"""Draft model: a smaller model of the same vocabulary drafts, one pass per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from atelico.errors import InferenceError
from atelico.runtime.context import Context, Logits, Row
from atelico.runtime.model import Model
from atelico.runtime.prefix import common_prefix
from atelico.speculation.draft import Distribution, Network
from atelico.speculation.pick import Pick, greedy

# A token that is so unlikely, by the drafter's own reckoning, is not worth verifying where the likeliest is wanted.
MIN_PROBABILITY = 0.3


@dataclass
class Slot:
    """A sequence of the drafter's memory, and what it holds."""

    id: int
    tokens: list[int] = field(default_factory=list)


class DraftModel:
    """The drafter of one loaded model, with a sequence per lane. Sequences keep what they hold for later requests."""

    def __init__(self, model: Model, context: Context, expected_cost: float) -> None:
        """Takes model and context over. `expected_cost`: as a Network's."""
        self.network = Network("draft", expected_cost)
        self.context = context
        self.eog = model.vocabulary.eog
        self._model = model
        self._slots = [Slot(i) for i in range(context.n_sequences)]
        self._free = list(self._slots)

    def acquire(self, tokens: Sequence[int]) -> Slot:
        """The free sequence that has most of `tokens` in memory already.

        Raises:
            InferenceError: all are taken.
        """
        if not self._free:
            raise InferenceError("All sequences of the draft model are in use.")
        slot = max(self._free, key=lambda slot: common_prefix(slot.tokens, tokens))
        self._free.remove(slot)
        return slot

    def release(self, slot: Slot) -> None:
        """Give a sequence back."""
        self._free.append(slot)

    def make_room(self, n_new: int) -> None:
        """Empty the free sequences where so many more cells would not fit."""
        if sum(len(slot.tokens) for slot in self._slots) + n_new > self.context.n_cells:
            for slot in self._free:
                self.context.clear(slot.id)
                slot.tokens = []

    def close(self) -> None:
        """Free memory and weights."""
        self.context.close()
        self._model.close()


class ModelDrafter:
    """The drafter's guesses for one lane. Its memory follows the lane's tokens whenever a guess is wanted."""

    reads_hidden = False

    def __init__(self, drafter: DraftModel, n_prompt: int, pick: Pick = greedy) -> None:
        """`n_prompt`: tokens of the prompt, which are observed first."""
        self.network = drafter.network
        self._drafter = drafter
        self._n_prompt = n_prompt
        self._pick = pick
        self._slot: Slot | None = None
        self._tokens: list[int] = []
        self.distributions: list[Distribution] = []

    def observe(self, tokens: Sequence[int]) -> None:
        """`tokens` were committed."""
        self._tokens.extend(tokens)

    def read(self, position: int, hidden: npt.NDArray[np.float32]) -> None:
        """Not needed."""

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """What the drafter expects after the committed tokens and `ahead`, until it is unsure.

        Draws never stop early: acceptance.py says why.
        """
        self.distributions = []
        context = self._drafter.context
        tokens = [*self._tokens, *ahead]
        budget = min(budget, context.n_ctx - len(tokens))
        if budget <= 0:
            return []
        if self._slot is None:
            self._slot = self._drafter.acquire(tokens)
        logits = self._follow(self._slot, tokens, budget)
        guess: list[int] = []
        while logits is not None:
            token, shares = self._pick(logits, len(tokens) + len(guess) - self._n_prompt)
            if shares is not None:
                self.distributions.append(shares)
            elif token == np.argmax(logits) and _probability(logits, token) < MIN_PROBABILITY:
                break
            guess.append(token)
            if len(guess) == budget or (shares is None and token in self._drafter.eog):
                break
            logits = self._feed(self._slot, [token], wants_logits=True)
        return guess

    def close(self) -> None:
        """Give the sequence back."""
        slot, self._slot = self._slot, None
        if slot is not None:
            self._drafter.release(slot)

    def _follow(self, slot: Slot, tokens: list[int], n_more: int) -> Logits | None:
        """Bring the memory to exactly `tokens`; the logits after the last one, or None when a pass was aborted."""
        context = self._drafter.context
        n_kept = min(common_prefix(slot.tokens, tokens), len(tokens) - 1)  # the last one is read for its logits
        if not context.truncate(slot.id, n_kept):
            context.clear(slot.id)
            n_kept = 0
        del slot.tokens[n_kept:]
        self._drafter.make_room(len(tokens) - n_kept + n_more)
        logits = None
        for first in range(n_kept, len(tokens), context.n_batch):
            part = tokens[first : first + context.n_batch]
            is_last = first + len(part) == len(tokens)
            logits = self._feed(slot, part, wants_logits=is_last)
            if len(slot.tokens) < first + len(part):
                return None
        return logits

    def _feed(self, slot: Slot, tokens: Sequence[int], *, wants_logits: bool) -> Logits | None:
        start, last = len(slot.tokens), len(tokens) - 1
        rows = [Row(token, start + i, slot.id, wants_logits and i == last) for i, token in enumerate(tokens)]
        logits = self._drafter.context.decode(rows)
        if logits is None:
            return None
        slot.tokens.extend(tokens)
        return logits[0] if wants_logits else None


def _probability(logits: Logits, likeliest: int) -> float:
    return float(1.0 / np.exp(logits - logits[likeliest]).sum())
