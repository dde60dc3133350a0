"""MTP: the model's own NextN head drafts, from the hidden states that the model computed anyway.

Each token that the model decodes becomes an entry of the head, paired with the hidden state before it. Entries made
from guesses go on with the head's own hidden state and are forgotten before the guesses are verified.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atelico.errors import InferenceError
from atelico.runtime.mtp import HeadContext, HeadOutput, Hidden
from atelico.speculation.draft import Distribution, Network
from atelico.speculation.pick import Pick, greedy

# Entries of accepted tokens ride along with the next draft; where none comes, so many are decoded on their own.
_MAX_WAITING = 32


class Head:
    """The head of one loaded model: its context, and which of its sequences are free."""

    def __init__(self, context: HeadContext, n_sequences: int, eog: frozenset[int]) -> None:
        self.context = context
        self.eog = eog
        self._free = list(range(n_sequences))

    def acquire(self) -> int:
        """An empty sequence.

        Raises:
            InferenceError: all are taken.
        """
        if not self._free:
            raise InferenceError("All sequences of the NextN head are in use.")
        return self._free.pop()

    def release(self, sequence: int) -> None:
        """Give a sequence back."""
        self.context.clear(sequence)
        self._free.append(sequence)

    def close(self) -> None:
        """Free the context."""
        self.context.close()


class HeadDrafter:
    """The head's drafts for one lane.

    The lane's tokens before `_n_entries` are in the head's memory; `_hidden` holds the hidden states of the positions
    from `_first_hidden` on, which entries to come are paired with.
    """

    network = Network("mtp", expected_cost=0.25)
    reads_hidden = True

    def __init__(self, head: Head, n_prompt: int, pick: Pick = greedy) -> None:
        """`n_prompt`: tokens of the prompt, which are observed first."""
        self._head = head
        self._n_prompt = n_prompt
        self._pick = pick
        self._sequence: int | None = None
        self._tokens: list[int] = []
        self._n_entries = 0
        self._first_hidden = 0
        self._hidden: Hidden = np.empty((0, head.context.n_embd), np.float32)
        self.distributions: list[Distribution] = []

    def observe(self, tokens: Sequence[int]) -> None:
        """`tokens` were committed."""
        self._tokens.extend(tokens)

    def read(self, position: int, hidden: Hidden) -> None:
        """The model has just decoded `position` and after; what is known up to there becomes certain."""
        if self._sequence is None:
            self._sequence = self._head.acquire()
            # Of a reused prefix there are no hidden states: the head begins in the middle, which costs a little
            # acceptance and nothing else.
            self._n_entries = self._first_hidden = position
        n_known = position - self._first_hidden
        if 0 <= n_known <= len(self._hidden):
            self._hidden = np.concatenate([self._hidden[:n_known], hidden])
        else:
            self._n_entries = max(self._n_entries, position)
            self._first_hidden, self._hidden = position, hidden.copy()
        if position - self._n_entries >= _MAX_WAITING or len(hidden) >= _MAX_WAITING:
            # Not the newest rows: some of them may be drafts that are about to be rejected. Prompts have no drafts.
            is_prompt = position + len(hidden) < len(self._tokens)
            self._catch_up(position + len(hidden) if is_prompt else position)

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """What the head expects after the committed tokens and `ahead`, one pass per token.

        Draws never stop early: acceptance.py says why.
        """
        self.distributions = []
        last = len(self._tokens) - 1  # the pending token
        n_hidden = self._first_hidden + len(self._hidden)
        if self._sequence is None or budget <= 0 or n_hidden < last:
            return []
        if self._n_entries > last:  # the last draft was never verified
            self._head.context.truncate(self._sequence, last)
            self._n_entries = last
        self._catch_up(last)
        output = self._decode(last, [self._tokens[last]], self._states(last, last + 1), wants_output=True)
        self._n_entries = last + 1
        position = last + 1
        for token in ahead:
            output = self._continue(position, token, output)
            position += 1
        guess: list[int] = []
        while output is not None:
            token, shares = self._pick(output.logits, position - self._n_prompt)
            guess.append(token)
            if shares is not None:
                self.distributions.append(shares)
            if len(guess) == budget or (shares is None and token in self._head.eog):
                break
            output = self._continue(position, token, output)
            position += 1
        if not self._head.context.truncate(self._sequence, last + 1):
            raise InferenceError("The memory of the NextN head could not forget a draft.")
        # An aborted pass leaves no entry, and whoever aborted it ends this lane.
        self._n_entries = min(self._n_entries, self._head.context.length(self._sequence))
        return guess

    def close(self) -> None:
        """Give the sequence back."""
        sequence, self._sequence = self._sequence, None
        if sequence is not None:
            self._head.release(sequence)

    def _catch_up(self, end: int) -> None:
        """Make entries of the committed tokens before position `end`."""
        size = self._head.context.n_batch
        while self._n_entries < end:
            first, stop = self._n_entries, min(end, self._n_entries + size)
            self._decode(first, self._tokens[first:stop], self._states(first, stop), wants_output=False)
            self._n_entries = stop
        keep = max(self._n_entries - 1 - self._first_hidden, 0)
        self._first_hidden += keep
        self._hidden = self._hidden[keep:]

    def _states(self, first: int, stop: int) -> Hidden:
        """The hidden states before the tokens at first..stop-1; zeros before the first one that is known."""
        start = first - 1 - self._first_hidden
        if start >= 0:
            return self._hidden[start : start + stop - first]
        zeros = np.zeros((1, self._head.context.n_embd), np.float32)
        return np.concatenate([zeros, self._hidden[: stop - first - 1]])

    def _continue(self, position: int, token: int, output: HeadOutput | None) -> HeadOutput | None:
        return (
            self._decode(position, [token], output.hidden[None, :], wants_output=True) if output is not None else None
        )

    def _decode(self, position: int, tokens: Sequence[int], hidden: Hidden, *, wants_output: bool) -> HeadOutput | None:
        assert self._sequence is not None
        return self._head.context.decode(self._sequence, position, tokens, hidden, wants_output=wants_output)
