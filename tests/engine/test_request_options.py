"""Sampling options, log-probabilities, several choices and usage, with and without speculation."""

from __future__ import annotations

from typing import Any

import pytest

from support.chat import DRAFTING, REPEAT, Chat, streamed_text
from support.observe import run

MODES: dict[str, dict[str, Any]] = {"plain": {}, "drafting": DRAFTING}


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Fields of a request that decodes plainly, or with eight draft tokens per round."""
    return MODES[request.param]


@pytest.mark.parametrize(
    "penalty", [{"frequency_penalty": 2}, {"presence_penalty": 2}, {"repetition_penalty": 1.8}], ids=str
)
def test_a_penalty_changes_a_repetitive_answer(smol: Chat, mode: dict[str, Any], penalty: dict[str, float]) -> None:
    question = "Write the words: red red red red red red red red red red"
    without = run(smol.engine, smol.request(question, max_tokens=16, **mode))
    punished = run(smol.engine, smol.request(question, max_tokens=16, **penalty, **mode))
    assert punished.output != without.output
    assert most_frequent(punished.output) < most_frequent(without.output)


def most_frequent(tokens: tuple[int, ...]) -> int:
    return max(map(tokens.count, tokens))


def test_a_banned_token_never_comes_and_a_forced_one_always(smol: Chat, mode: dict[str, Any]) -> None:
    usual = run(smol.engine, smol.request(REPEAT, max_tokens=8, **mode)).output
    banned = run(smol.engine, smol.request(REPEAT, max_tokens=8, logit_bias={str(usual[1]): -100}, **mode)).output
    assert usual[1] not in banned
    (token,) = smol.tokenize(" key")
    forced = run(smol.engine, smol.request(REPEAT, max_tokens=8, logit_bias={str(token): 100}, **mode)).output
    assert forced == (token,) * 8


@pytest.mark.parametrize("fields", [{"top_k": 1}, {"top_p": 0}, {"min_p": 1}], ids=str)
def test_a_choice_of_one_is_the_greedy_choice_at_any_temperature(smol: Chat, fields: dict[str, Any]) -> None:
    assert smol.text(REPEAT, temperature=2, **fields) == smol.text(REPEAT, temperature=0)


def test_a_seed_repeats_an_answer_and_another_gives_another(smol: Chat, mode: dict[str, Any]) -> None:
    def told(seed: int) -> str:
        return smol.text("Tell me something.", temperature=1.5, seed=seed, **mode)

    assert told(1) == told(1)
    assert len({told(seed) for seed in range(1, 5)}) == 4


def test_logprobs_have_one_entry_per_returned_token(smol: Chat, mode: dict[str, Any]) -> None:
    answer = smol.ask(REPEAT, max_tokens=16, logprobs=True, top_logprobs=4, **mode)
    (choice,) = answer.choices
    assert choice.logprobs is not None
    content = choice.logprobs.content
    assert len(content) == answer.usage.completion_tokens
    assert b"".join(bytes(entry.bytes or []) for entry in content).decode() == choice.message.content
    for entry in content:
        assert len(entry.top_logprobs) == 4
        best = [candidate.logprob for candidate in entry.top_logprobs]
        assert best == sorted(best, reverse=True)
        assert max(best) <= 0
        assert (entry.token, entry.logprob) == (entry.top_logprobs[0].token, best[0])  # greedy


def test_logprobs_are_the_same_with_and_without_speculation(smol: Chat) -> None:
    plain, drafted = (
        smol.ask(REPEAT, max_tokens=16, logprobs=True, top_logprobs=3, **mode).choices[0].logprobs
        for mode in MODES.values()
    )
    assert plain is not None
    assert drafted is not None
    assert [entry.token for entry in plain.content] == [entry.token for entry in drafted.content]
    for one, other in zip(plain.content, drafted.content, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
        assert [c.token for c in one.top_logprobs] == [c.token for c in other.top_logprobs]


def test_logprobs_without_candidates_are_only_the_chosen_ones(smol: Chat) -> None:
    logprobs = smol.ask("Hi", max_tokens=3, logprobs=True).choices[0].logprobs
    assert logprobs is not None
    assert [entry.top_logprobs for entry in logprobs.content] == [[]] * 3
    assert smol.ask("Hi", max_tokens=3).choices[0].logprobs is None


def test_streamed_logprobs_are_those_of_the_whole_answer(smol: Chat, mode: dict[str, Any]) -> None:
    job = smol.submit(REPEAT, max_tokens=16, logprobs=True, top_logprobs=2, stream=True, stop=["never"], **mode)
    sent = [entry for chunk in job.chunks() for c in chunk.choices if c.logprobs for entry in c.logprobs.content]
    whole = job.result(0).choices[0].logprobs
    assert whole is not None
    assert sent == whole.content


def test_deltas_joined_are_the_text_in_every_mode(smol: Chat, mode: dict[str, Any]) -> None:
    job = smol.submit(REPEAT, max_tokens=30, stream=True, **mode)
    chunks = list(job.chunks())
    assert streamed_text(chunks) == job.result(0).choices[0].message.content
    assert chunks[-1].atelico == job.result(0).atelico


def test_accepted_drafts_come_in_fewer_chunks(smol: Chat) -> None:
    plain, drafted = (smol.chunks(REPEAT, max_tokens=16, **mode) for mode in MODES.values())
    assert len(drafted) < len(plain)


def test_several_choices_have_seeds_of_their_own_and_usage_adds_up(smol: Chat, mode: dict[str, Any]) -> None:
    answer = smol.ask("Tell me something.", n=3, temperature=1.5, seed=7, max_tokens=8, **mode)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 3
    assert 3 <= answer.usage.completion_tokens <= 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    single = smol.ask("Tell me something.", temperature=1.5, seed=8, max_tokens=8, **mode)
    assert single.usage.prompt_tokens == answer.usage.prompt_tokens


def test_more_choices_than_lanes_are_all_answered(small: Chat) -> None:
    answer = small.ask("Hi", n=3, temperature=1.5, seed=1, max_tokens=3)
    assert len(answer.choices) == 3
    assert all(choice.message.content for choice in answer.choices)


def test_usage_counts_exactly_the_returned_tokens(smol: Chat, mode: dict[str, Any]) -> None:
    for limit in (1, 5, 90):  # the last one ends by itself
        found = run(smol.engine, smol.request(REPEAT, max_tokens=limit, **mode))
        usage = found.answer.usage
        assert usage.completion_tokens == len(found.output) <= limit
        assert usage.prompt_tokens == len(found.prompt)
        pieces = map(smol.loaded.model.vocabulary.piece, found.output)
        assert b"".join(pieces).decode(errors="replace") == found.text
    assert found.finish_reason == "stop"
    assert found.output[-1] not in smol.loaded.model.vocabulary.eog


def test_usage_in_a_stream_comes_where_it_was_asked_for(smol: Chat) -> None:
    plain = smol.chunks("Hi", max_tokens=3)
    assert all(chunk.usage is None for chunk in plain)
    last = smol.chunks("Hi", max_tokens=3, stream_options={"include_usage": True})[-1]
    assert last.usage is not None
    assert last.usage.completion_tokens == 3
    steady = smol.chunks("Hi", max_tokens=3, stream_options={"continuous_usage_stats": True})
    counts = [chunk.usage.completion_tokens for chunk in steady if chunk.usage]
    assert counts == sorted(counts) != []


def test_gemma_answers_with_the_same_options(gemma: Chat) -> None:
    answer = gemma.ask(REPEAT, max_tokens=8, logprobs=True, top_logprobs=2, seed=1, temperature=0.8, **DRAFTING)
    assert answer.choices[0].logprobs is not None
    assert len(answer.choices[0].logprobs.content) == answer.usage.completion_tokens
