"""Schema memory: draft what earlier answers to the same JSON schema had there: keys, enum values, shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from atelico.speculation.ngram_pool import LONGEST, NgramPool

MAX_SCHEMAS = 32
# About 2,000 tokens of answers per schema.
ENTRIES_PER_SCHEMA = 8_192
# Stands for what precedes an answer, so that its first tokens are remembered as such.
_BEFORE = -1


class SchemaPools:
    """A pool for each schema; the least recently used schemas go first. Used by the thread that prepares requests."""

    def __init__(self, capacity: int = MAX_SCHEMAS) -> None:
        self._capacity = capacity
        self._pools: OrderedDict[str, NgramPool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pools)

    def pool(self, key: str) -> NgramPool:
        """The pool of the schema with this key (CompiledGrammar.key), made where there is none yet."""
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = NgramPool(ENTRIES_PER_SCHEMA)
            if len(self._pools) > self._capacity:
                self._pools.popitem(last=False)
        self._pools.move_to_end(key)
        return pool


class SchemaMemory:
    """Drafts along the pool of one schema and feeds it with this answer. The prompt plays no part."""

    name = "schema_memory"
    source = "schema"

    def __init__(self, pool: NgramPool, n_prompt: int) -> None:
        """`n_prompt`: how many of the observed tokens are the prompt, which is skipped."""
        self.match = 0
        self._pool = pool
        self._n_to_skip = n_prompt
        self._tail = [_BEFORE] * LONGEST

    def observe(self, tokens: Sequence[int]) -> None:
        """Feed the pool with the answer."""
        answer = tokens[self._n_to_skip :]
        self._n_to_skip = max(self._n_to_skip - len(tokens), 0)
        for token in answer:
            self._pool.learn(self._tail, token)
            self._tail = [*self._tail[-(LONGEST - 1) :], token]

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """Follow the pool from the end of the answer so far."""
        guess, self.match = self._pool.chain([*self._tail, *ahead], budget)
        return guess
