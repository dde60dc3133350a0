"""Seeded answers follow the model's distribution, and drafts change none of them: the whole engine, 2,048 seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from atelico import Engine
from support.g_test import g_test_p
from support.near_tie import replay
from support.observe import loaded_model, run
from support.prompts import request
from support.scripted import Scripted, always, installed
from support.tiny_models import vocabulary

N_SEEDS, N_PER_REQUEST = 2048, 128
PROMPT = "Where is the key?"
TEMPERATURE = 0.7
# The likeliest continuations are drafted, so that some of them are right.
LIKELY = [vocabulary().tokens.index(f"\u0120{word}") for word in ("null", "under")]

Answers = list[tuple[str, ...]]


def sampled(engine: Engine, model: Path, **fields: object) -> Answers:
    """The first tokens of the answers to the seeds 0, 1, 2, ..., by their text or, for broken characters, bytes."""
    answers: Answers = []
    for first in range(0, N_SEEDS, N_PER_REQUEST):
        body = request(str(model), PROMPT, max_tokens=3, temperature=TEMPERATURE, logprobs=True, **fields)
        completion = engine.chat_completion({**body, "n": N_PER_REQUEST, "seed": first}, timeout=300)
        for choice in completion.choices:
            assert choice.logprobs is not None
            answers.append(tuple(name(token.token, token.bytes or []) for token in choice.logprobs.content))
    return answers


def name(text: str, data: list[int]) -> str:
    """One name per token."""
    return text if "\ufffd" not in text else str(data)


@pytest.fixture(scope="module")
def plain(tiny_engine: Engine, tiny_folder: Path) -> Answers:
    """What comes without drafts."""
    return sampled(tiny_engine, tiny_folder / "llama.gguf")


@pytest.fixture(scope="module")
def expected(tiny_engine: Engine, tiny_folder: Path) -> dict[str, float]:
    """How often each token should come first: the softmax of the prompt's last row."""
    model = str(tiny_folder / "llama.gguf")
    first = run(tiny_engine, request(model, PROMPT, max_tokens=1, temperature=0))
    loaded = loaded_model(tiny_engine, model)
    row = replay(loaded, first.passes, first.prompt).astype(np.float64) / TEMPERATURE
    shares = np.exp(row - row.max())
    shares *= N_SEEDS / shares.sum()
    words = loaded.model.vocabulary
    counts: dict[str, float] = defaultdict(float)
    for token, share in enumerate(shares):
        data = words.piece(token)
        counts[name(data.decode(errors="replace") or words.text(token), list(data))] += float(share)
    assert len(counts) == words.n_tokens
    return dict(counts)


def test_first_tokens_follow_the_softmax(plain: Answers, expected: dict[str, float]) -> None:
    # An answer that ends at once has no token; such seeds count for the end token.
    first = Counter(answer[0] if answer else "<|end|>" for answer in plain)
    assert first.total() == N_SEEDS
    assert sum(count >= 5 for count in expected.values()) > 20
    assert g_test_p(first, expected) > 1e-3


def test_the_g_test_notices_a_wrong_temperature(plain: Answers, expected: dict[str, float]) -> None:
    first = Counter(answer[0] if answer else "<|end|>" for answer in plain)
    flatter = {cell: count**0.9 for cell, count in expected.items()}
    scale = N_SEEDS / sum(flatter.values())
    assert g_test_p(first, {cell: count * scale for cell, count in flatter.items()}) < 1e-3


def test_drafts_change_no_seeded_answer(tiny_engine: Engine, tiny_folder: Path, plain: Answers) -> None:
    proposer = Scripted(always(LIKELY))
    with installed(proposer) as drafting:
        drafted = sampled(tiny_engine, tiny_folder / "llama.gguf", **drafting)
    assert proposer.n_calls > N_SEEDS * 0.9
    assert any(answer[1:2] == (" null",) for answer in drafted), "no draft was ever right"
    assert [answer[:1] for answer in drafted] == [answer[:1] for answer in plain]
    # Later rows come from another kernel than in plain decoding; with F32 weights next to no draw notices it.
    differing = sum(a != b for a, b in zip(plain, drafted, strict=True))
    assert differing <= N_SEEDS // 500, differing
