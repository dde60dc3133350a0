"""Stochastic acceptance through whole requests: plain text at temperature 0, else reproducible and well distributed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atelico import Engine
from atelico._native import Sampler
from atelico.decoding.loaded import LoadedModel
from atelico.runtime.context import Context, ContextOptions, Row
from support.g_test import g_test_p
from support.memory import holds_exactly_the_returned_tokens
from support.near_tie import first_difference
from support.observe import loaded_model
from support.prompts import request
from support.tiny_answers import SHEET, WORDS, Answer

# Each with a model that it drafts for.
PROPOSERS = {
    "prompt_lookup": "llama",
    "lookahead": "llama",
    "auto": "llama",
    "prediction": "llama",
    "draft_model": "drafted",
    "mtp": "head-aligned",
}
ALONE = {"governor": "off", "memory": "off"}


def stochastic(proposer: str, text: str = WORDS, *, k: int = 4) -> dict[str, Any]:
    """The request fields; `text` is the prediction where that is the proposer."""
    fields: dict[str, Any] = {"speculative": {"proposer": proposer, "k": k, "acceptance": "stochastic"}}
    if proposer == "prediction":
        fields["speculative"]["proposer"] = "prompt_lookup"
        fields["prediction"] = {"type": "content", "content": text}
    return {**fields, "atelico": dict(ALONE)}


@pytest.mark.parametrize("proposer", PROPOSERS)
def test_at_temperature_0_the_text_is_the_plain_one(answer: Answer, proposer: str) -> None:
    model = PROPOSERS[proposer]
    plain = answer(model, max_tokens=200)
    drafted = answer(model, max_tokens=200, **stochastic(proposer, plain.text))
    assert drafted.accepted > 0
    assert drafted.answer.atelico.speculation.acceptance == "stochastic"
    assert first_difference(plain, drafted) is None


@pytest.mark.parametrize("proposer", ["lookahead", "draft_model", "mtp"])
def test_json_at_temperature_0_is_the_plain_one(answer: Answer, proposer: str) -> None:
    model = PROPOSERS[proposer]
    plain = answer(model, max_tokens=80, response_format=SHEET)
    fields = {**stochastic(proposer), "atelico": {"governor": "off"}}  # with the memory of the schema
    for _ in range(2):
        drafted = answer(model, max_tokens=80, response_format=SHEET, **fields)
        assert drafted.accepted > 0
        assert first_difference(plain, drafted) is None


@pytest.mark.parametrize("proposer", PROPOSERS)
def test_a_seed_and_the_same_drafts_give_the_same_answer_again(answer: Answer, proposer: str) -> None:
    model = PROPOSERS[proposer]
    fields = {"temperature": 0.5, "max_tokens": 120, **stochastic(proposer, answer(model).text)}
    first, again, other = (answer(model, **fields, seed=seed) for seed in (7, 7, 8))
    assert 0 < first.accepted < first.proposed
    assert first.output == again.output != other.output
    for found in (first, other):
        assert proposer == "mtp" or holds_exactly_the_returned_tokens(found)  # a hybrid's memory is not kept
        assert found.answer.usage.completion_tokens == len(found.output) > 60
        assert found.answer.atelico.speculation.near_ties == 0


@pytest.mark.parametrize("proposer", ["prediction", "draft_model", "mtp"])
def test_log_probabilities_are_the_models_own(
    answer: Answer, tiny_engine: Engine, tiny_folder: Path, proposer: str
) -> None:
    model = PROPOSERS[proposer]
    drafting = stochastic(proposer, answer(model).text)
    found = answer(model, temperature=0.5, seed=3, logprobs=True, max_tokens=40, **drafting)
    assert 0 < found.accepted < found.proposed
    loaded = loaded_model(tiny_engine, str(tiny_folder / f"{model}.gguf"))
    logprobs = found.answer.choices[0].logprobs
    assert logprobs is not None
    rows = rows_of(loaded, [*found.prompt, *found.output], len(found.output))
    for row, token, told in zip(rows, found.output, logprobs.content, strict=True):
        assert told.logprob == pytest.approx(float(row[token] - np.logaddexp.reduce(row)), abs=1e-3)


@pytest.mark.parametrize("proposer", ["lookahead", "draft_model", "mtp"])
def test_json_satisfies_its_schema(answer: Answer, proposer: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(12):
        fields = {"temperature": 1.0, "seed": seed, "max_tokens": 100, "response_format": SHEET}
        found = answer(PROPOSERS[proposer], **fields, **stochastic(proposer))
        sheet = json.loads(found.text)
        assert sheet.keys() == {"name", "class", "level"}
        assert sheet["class"] in ("mage", "thief", "warrior")
        assert 1 <= sheet["level"] <= 20
        assert proposer == "mtp" or holds_exactly_the_returned_tokens(found)
        seen.update(found.answer.atelico.speculation.proposed_sources)
    assert seen["grammar"] > 0
    if proposer != "lookahead":
        assert seen["draft"] + seen["mtp"] > 0


def test_a_stop_string_inside_an_accepted_draft_ends_the_text_before_it(answer: Answer) -> None:
    fields = {"temperature": 0.6, "seed": 4, "max_tokens": 60, **stochastic("draft_model")}
    whole = answer("drafted", **fields)
    middle = len(whole.text) // 2
    stop = whole.text[middle : middle + 9]
    cut = answer("drafted", **fields, stop=[stop])
    assert cut.finish_reason == "stop"
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.answer.usage.completion_tokens == len(cut.output) < len(whole.output)
    assert holds_exactly_the_returned_tokens(cut)


def test_the_answer_tells_which_rule_was_used(answer: Answer) -> None:
    def told(**fields: Any) -> str | None:
        return answer("llama", max_tokens=4, **fields).answer.atelico.speculation.acceptance

    assert told() is None
    assert told(speculative={"proposer": "pld"}) == "exact"
    assert told(speculative={"proposer": "pld", "acceptance": None}) == "exact"
    assert told(**stochastic("prompt_lookup")) == "stochastic"
    assert told(speculative={"proposer": "no such", "acceptance": "stochastic"}) is None


# --- the distribution ---------------------------------------------------------------------------------------------

N_ANSWERS, N_PER_REQUEST, N_TOKENS = 6784, 128, 3
SAMPLING: dict[str, Any] = {"temperature": 1.5, "top_k": 3}


@pytest.mark.parametrize("proposer", ["prediction", "draft_model", "mtp"])
def test_answers_of_the_whole_engine_follow_the_models_distribution(
    tiny_engine: Engine, tiny_folder: Path, answer: Answer, proposer: str
) -> None:
    model = PROPOSERS[proposer]
    likeliest = answer(model, max_tokens=N_TOKENS)
    path = str(tiny_folder / f"{model}.gguf")
    expected = distribution_of_answers(loaded_model(tiny_engine, path), likeliest.prompt)
    observed: Counter[tuple[bytes, ...]] = Counter()
    n_accepted = n_proposed = 0
    for first in range(0, N_ANSWERS, N_PER_REQUEST):
        body = request(path, WORDS, max_tokens=N_TOKENS, logprobs=True, n=N_PER_REQUEST, seed=first, **SAMPLING)
        found = tiny_engine.chat_completion({**body, **stochastic(proposer, likeliest.text)}, 300)
        n_accepted += found.atelico.speculation.accepted
        n_proposed += found.atelico.speculation.proposed
        for choice in found.choices:
            assert choice.logprobs is not None
            observed[tuple(bytes(token.bytes or []) for token in choice.logprobs.content)] += 1
    assert observed.total() * N_TOKENS > 20_000
    assert N_ANSWERS / 10 < n_accepted < n_proposed
    assert g_test_p(observed, {cell: share * N_ANSWERS for cell, share in expected.items()}) > 1e-3


def distribution_of_answers(loaded: LoadedModel, prompt: tuple[int, ...]) -> dict[tuple[bytes, ...], float]:
    """Every answer of N_TOKENS tokens, by the bytes of its tokens, with its probability."""
    n_vocab = loaded.model.vocabulary.n_tokens
    sampler = Sampler(n_vocab, **SAMPLING)

    def followers(answer: tuple[int, ...]) -> list[tuple[int, float]]:
        shares = np.empty(n_vocab)
        (row,) = rows_of(loaded, [*prompt, *answer, 0], 1)
        sampler.probabilities(row, out=shares)
        return [(int(token), float(shares[token])) for token in np.flatnonzero(shares)]

    answers: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(N_TOKENS):
        answers = {
            (*known, token): probability * share
            for known, probability in answers.items()
            for token, share in followers(known)
        }
    assert len(answers) == 3**N_TOKENS
    assert not loaded.model.vocabulary.eog & {token for tokens in answers for token in tokens}
    piece = loaded.model.vocabulary.piece
    named = {tuple(piece(token) for token in tokens): share for tokens, share in answers.items()}
    assert len(named) == len(answers)
    return named


def rows_of(loaded: LoadedModel, tokens: list[int], n_last: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The logits from which each of the `n_last` last tokens came, read as plain decoding reads them."""
    sizes = ContextOptions(n_ctx=512, n_cells=512, n_batch=256, n_sequences=1, n_outputs=1, n_threads=loaded.n_threads)
    context = Context(loaded.model, sizes)
    try:
        n_prompt = len(tokens) - n_last
        passes = [range(n_prompt), *(range(i, i + 1) for i in range(n_prompt, len(tokens) - 1))]
        return np.concatenate(
            [np.array(context.decode([Row(tokens[i], i, 0, i == part[-1]) for i in part])) for part in passes]
        )
    finally:
        context.close()
