"""When speculation is off the response says why; when it is on, its numbers add up; a bad proposer hurts nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from atelico import Engine, EngineConfig
from atelico.speculation import gates, registry
from atelico.speculation.gates import Gate
from support.chat import DRAFTING, REPEAT, SMOLLM2, Chat
from support.observe import run

Script = Callable[[list[int], int], list[int]]
UNGOVERNED = {"atelico": {"governor": "off"}}


class Scripted:
    """Drafts what `script(context, budget)` returns."""

    name = source = "scripted"
    match = 3

    def __init__(self, script: Script) -> None:
        self._script = script
        self._context: list[int] = []

    def observe(self, tokens: Sequence[int]) -> None:
        self._context += tokens

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        return self._script([*self._context, *ahead], budget)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], dict[str, Any]]:
    """Makes a script a proposer; gives the fields of a request for it."""

    def install(script: Script) -> dict[str, Any]:
        monkeypatch.setitem(registry._BUILDERS, "scripted", lambda *_: [Scripted(script)])
        return {"speculative": {"proposer": "scripted", "k": 8}, **UNGOVERNED}

    return install


@pytest.mark.parametrize(
    ("speculative", "reason"),
    [
        (None, "not requested"),
        ({"proposer": None}, "'none'"),
        ({"proposer": "none"}, "'none'"),
        ({"proposer": "Medusa", "k": 3}, "unknown proposer 'Medusa'"),
        ({"proposer": "draft_model"}, "draft_model"),
    ],
    ids=str,
)
def test_without_speculation_the_answer_is_plain_and_says_why(smol: Chat, speculative: Any, reason: str) -> None:
    answer = smol.ask(REPEAT, speculative=speculative)
    info = answer.atelico.speculation
    assert not info.active
    assert reason in (info.reason or "")
    assert (info.rounds, info.proposed, info.accepted, info.acceptance_rate) == (0, 0, 0, None)
    assert answer.choices[0].message.content == smol.text(REPEAT)


def test_mtp_on_a_model_without_it_decodes_plainly(smol: Chat) -> None:
    info = smol.ask(REPEAT, max_tokens=3, speculative={"proposer": "MTP"}).atelico.speculation
    assert (info.proposer, info.active) == ("mtp", False)
    assert "mtp" in (info.reason or "").lower()


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "json_object"}}], ids=["free", "structured"])
def test_a_gate_turns_speculation_off_and_never_fails_the_request(
    smol: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    rule = Gate("test", lambda target: target.architecture == "llama", "a test said so")
    monkeypatch.setattr(gates, "GATES", (*gates.GATES, rule))
    with caplog.at_level(logging.INFO, "atelico"):
        answer = smol.ask(REPEAT, max_tokens=4, **{**DRAFTING, **fields})
    assert (answer.atelico.speculation.active, answer.atelico.speculation.reason) == (False, "a test said so")
    assert 0 < answer.usage.completion_tokens <= 4  # a document may end before
    lines = [record.getMessage() for record in caplog.records if answer.id in record.getMessage()]
    assert len(lines) == 1
    assert "a test said so" in lines[0]


def test_the_numbers_of_speculation_add_up(smol: Chat) -> None:
    info = smol.ask(REPEAT, max_tokens=40, **DRAFTING).atelico.speculation
    assert info.active
    assert info.reason is None
    assert 0 < info.accepted <= info.proposed <= 8 * info.rounds
    assert info.acceptance_rate == pytest.approx(info.accepted / info.proposed)
    assert sum(info.sources.values()) == info.accepted


@pytest.mark.parametrize("k", [1, 3])
def test_k_bounds_every_draft(smol: Chat, k: int) -> None:
    found = run(smol.engine, smol.request(REPEAT, max_tokens=24, speculative={"proposer": "pld", "k": k}, **UNGOVERNED))
    verifying = [len(rows) for rows in found.passes[1:]]
    assert max(verifying) == k + 1
    assert found.answer.atelico.speculation.rounds == sum(n > 1 for n in verifying)


def test_the_engines_limit_bounds_k() -> None:
    with Engine(EngineConfig(n_ctx=512, n_threads=1, max_draft=2)) as engine:
        chat = Chat(engine, SMOLLM2)
        found = run(engine, chat.request(REPEAT, max_tokens=24, **DRAFTING))
    assert max(len(rows) for rows in found.passes[1:]) == 3
    assert found.accepted > 0


@pytest.mark.parametrize("after", [0, 2])
def test_a_proposer_that_fails_costs_speed_and_never_the_request(
    smol: Chat, scripted: Callable[[Script], dict[str, Any]], after: int
) -> None:
    calls: list[int] = []

    def failing(_context: list[int], budget: int) -> list[int]:
        calls.append(budget)
        if len(calls) > after:
            raise RuntimeError("on purpose")
        return [0] * budget

    answer = smol.ask(REPEAT, **scripted(failing))
    assert len(calls) == after + 1
    assert not answer.atelico.speculation.active
    assert "failed" in (answer.atelico.speculation.reason or "")
    assert answer.choices[0].message.content == smol.text(REPEAT)
    assert smol.ask(REPEAT, **DRAFTING).atelico.speculation.active


@pytest.mark.parametrize("token", [-1, 10**6, 2**40], ids=str)
def test_a_proposer_that_drafts_no_token_costs_speed_and_never_the_request(
    smol: Chat, scripted: Callable[[Script], dict[str, Any]], token: int
) -> None:
    answer = smol.ask(REPEAT, **scripted(lambda _context, budget: [token] * budget))
    assert answer.choices[0].message.content == smol.text(REPEAT)


def test_a_draft_beyond_the_end_token_leaves_nothing_behind(
    smol: Chat, scripted: Callable[[Script], dict[str, Any]]
) -> None:
    plain = run(smol.engine, smol.request(REPEAT, max_tokens=90))
    whole = plain.prompt + plain.output
    end = sorted(smol.loaded.model.vocabulary.eog)[-1]

    def ends(context: list[int], budget: int) -> list[int]:
        return [*whole[len(context) :], smol.loaded.model.vocabulary.eos or end, *plain.output][:budget]

    found = run(smol.engine, smol.request(REPEAT, max_tokens=90, cache_prompt=False, **scripted(ends)))
    assert found.output == plain.output
    assert found.finish_reason == plain.finish_reason == "stop"
    assert found.accepted > 20
    assert found.memory == (found.prompt + found.output)[: found.n_memory]


def test_an_end_token_drafted_too_early_ends_nothing(smol: Chat, scripted: Callable[[Script], dict[str, Any]]) -> None:
    end = smol.loaded.model.vocabulary.eos
    assert end is not None
    answer = smol.ask(REPEAT, **scripted(lambda _context, budget: [end] * budget))
    assert answer.choices[0].message.content == smol.text(REPEAT)
    assert answer.atelico.speculation.accepted == 0


def test_a_proposer_that_falls_silent_after_a_hit_repeats_no_token(
    smol: Chat, scripted: Callable[[Script], dict[str, Any]]
) -> None:
    plain = run(smol.engine, smol.request(REPEAT, max_tokens=24))
    whole = list(plain.prompt + plain.output)
    found = run(
        smol.engine,
        smol.request(
            REPEAT,
            max_tokens=24,
            **scripted(lambda context, _budget: whole[len(context) :][:2] if len(context) % 2 else []),
        ),
    )
    assert found.output == plain.output
    assert found.accepted > 3


def test_drafts_under_a_schema_never_pass_its_end(smol: Chat, scripted: Callable[[Script], dict[str, Any]]) -> None:
    end = smol.loaded.model.vocabulary.eos or 0
    close, newline = smol.tokenize("}")[0], smol.tokenize("\n")[0]
    said = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": {"a": 1}}}}
    fields = scripted(lambda _context, _budget: [close, end, newline])
    answer = smol.ask("Hi", max_tokens=30, response_format=said, **fields)
    assert (answer.choices[0].message.content or "").replace(" ", "").replace("\n", "") == '{"a":1}'
    assert answer.choices[0].finish_reason == "stop"


def test_the_turn_after_rejected_drafts_is_what_it_is_in_a_fresh_engine(
    smol: Chat, scripted: Callable[[Script], dict[str, Any]]
) -> None:
    dialogue: list[dict[str, str]] = [{"role": "user", "content": REPEAT}]
    first = smol.ask(dialogue, max_tokens=12, **scripted(lambda _context, budget: [5, 6, 7, 8][:budget]))
    assert first.atelico.speculation.proposed > 20
    assert first.atelico.speculation.accepted == 0
    dialogue += [
        {"role": "assistant", "content": first.choices[0].message.content or ""},
        {"role": "user", "content": "The secret word is falcon. What is the secret word?"},
    ]
    with Engine(EngineConfig(n_ctx=1024, n_threads=1)) as engine:
        expected = Chat(engine, SMOLLM2).text(dialogue, max_tokens=6)
    assert smol.text(dialogue, max_tokens=6) == expected
