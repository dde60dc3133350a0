"""Answers under a schema: always valid, whatever the sampling; what cannot be enforced is refused."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from atelico import Engine, EngineConfig
from atelico.errors import InvalidRequestError, SchemaError
from support.chat import DRAFTING, SMOLLM2, Chat, streamed_text

SHEET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "class": {"enum": ["warrior", "mage", "thief"]},
        "level": {"type": "integer", "minimum": 1, "maximum": 20},
        "friend": {"type": ["string", "null"], "maxLength": 8},
    },
    "required": ["name", "class", "level"],
    "additionalProperties": False,
}
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0, **DRAFTING},
    {"temperature": 1, "top_k": 1, "seed": 1},
    {"temperature": 1, "top_k": 5, "seed": 2, **DRAFTING},
    {"temperature": 1.5, "top_k": 20, "seed": 3},
    {"temperature": 2, "seed": 4, **DRAFTING},
    {"temperature": 1, "top_p": 0.1, "min_p": 0.5, "repetition_penalty": 1.5, "seed": 5},
]


def schema(wanted: Any, **more: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": wanted, **more}}}


@pytest.mark.parametrize(
    ("model", "setting"),
    [*(("smol", setting) for setting in SETTINGS), *(("gemma", setting) for setting in SETTINGS[1:4])],
    ids=str,
)
def test_an_answer_follows_its_schema(model: str, setting: dict[str, Any], request: pytest.FixtureRequest) -> None:
    chat: Chat = request.getfixturevalue(model)
    answer = chat.ask("Describe a hero as JSON.", **{"max_tokens": 160, **setting, **schema(SHEET)})
    assert answer.choices[0].finish_reason == "stop"
    sheet = json.loads(answer.choices[0].message.content or "")
    jsonschema.validate(sheet, SHEET)
    assert [key for key in SHEET["properties"] if key in sheet] == list(sheet)


def test_the_first_structured_request_of_an_engine_may_speculate(smollm2_file: object) -> None:
    with Engine(EngineConfig(n_ctx=512, n_threads=1)) as engine:
        text = Chat(engine, SMOLLM2).text(
            "Describe a hero as JSON.", **{**DRAFTING, **schema(SHEET), "max_tokens": 160}
        )
    jsonschema.validate(json.loads(text), SHEET)
    assert smollm2_file


def test_what_the_grammar_forces_is_drafted_and_never_rejected(smol: Chat) -> None:
    fixed = {"const": {"quest": "Find the lantern of the lighthouse keeper", "reward": 100}}
    answer = smol.ask("Describe a quest.", max_tokens=80, **{**DRAFTING, **schema(fixed)})
    speculation = answer.atelico.speculation
    assert json.loads(answer.choices[0].message.content or "") == fixed["const"]
    assert speculation.sources.get("grammar", 0) > 5
    assert speculation.accepted == speculation.proposed


@pytest.mark.parametrize("model", ["smol", "gemma"])
def test_a_json_object_ends_though_nobody_asked_the_model_for_json(model: str, request: pytest.FixtureRequest) -> None:
    chat: Chat = request.getfixturevalue(model)
    answer = chat.ask("Why is the sky blue?", max_tokens=70, response_format={"type": "json_object"})
    text = answer.choices[0].message.content or ""
    assert not any(blank * 9 in text for blank in " \n\t\r")
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(text), dict)
    else:
        assert text.lstrip().startswith("{")


def test_an_answer_cut_by_its_limit_says_so(smol: Chat) -> None:
    wordy = {**SHEET, "properties": {**SHEET["properties"], "name": {"type": "string", "minLength": 60}}}
    answer = smol.ask("Describe a hero as JSON.", **{"max_tokens": 40, **schema(wordy)})
    assert answer.choices[0].finish_reason == "length"
    assert answer.atelico.closed_early
    assert answer.usage.completion_tokens <= 40


@pytest.mark.parametrize("limit", [1, 5])
def test_a_limit_that_no_answer_fits_into_is_refused(smol: Chat, limit: int) -> None:
    with pytest.raises(InvalidRequestError, match="max_tokens"):
        smol.ask("Describe a hero as JSON.", **{"max_tokens": limit, **schema(SHEET)})


def test_every_choice_follows_the_schema_and_streams_as_it_is(smol: Chat) -> None:
    fields = {"n": 2, "temperature": 1.2, "seed": 3, "max_tokens": 160, "stream": True, **schema(SHEET)}
    job = smol.submit("Describe a hero as JSON.", **fields)
    chunks = list(job.chunks())
    for choice in job.result(0).choices:
        assert streamed_text(chunks, choice.index) == choice.message.content
        jsonschema.validate(json.loads(choice.message.content or ""), SHEET)


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ({"type": "string", "pattern": "(?=a)b+"}, "pattern"),
        ({"type": "string", "pattern": "(unclosed"}, "pattern"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, "properties.a"),
        ({"type": "strin"}, "strin"),
        ({"$ref": "https://example.com/schema.json"}, "ref"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, "."),
        (False, "false"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_enforced_is_an_error_and_never_free_text(smol: Chat, wanted: Any, word: str) -> None:
    with pytest.raises(SchemaError, match=word) as caught:
        smol.ask("Hi", **schema(wanted, strict=True))
    assert (caught.value.param or "").startswith("response_format.json_schema")
    assert caught.value.http_status == 400
    assert smol.text("Say hello.", max_tokens=2)


def test_a_weakened_schema_is_still_enforced_and_says_what_is_not(smol: Chat) -> None:
    wanted = {
        "type": "object",
        "properties": {"mail": {"type": "string", "pattern": "^(?!x)[a-z]+$", "maxLength": 10}},
        "required": ["mail"],
    }
    answer = smol.ask("Write a mail address as JSON.", **{"max_tokens": 60, **schema(wanted, strict=False)})
    assert "pattern" in " ".join(answer.atelico.warnings)
    assert isinstance(json.loads(answer.choices[0].message.content or "")["mail"], str)


@pytest.mark.parametrize("choices", [["yes", "no"], ['say "hi"', "it's", "a/b\\c", "木"]], ids=str)
def test_a_banned_or_penalised_token_cannot_break_an_enum(smol: Chat, choices: list[str]) -> None:
    first = smol.tokenize('"' + choices[0])
    bias = {str(token): -100 for token in first}
    answer = smol.ask("Answer.", **{"max_tokens": 30, "logit_bias": bias, **schema({"enum": choices})})
    assert json.loads(answer.choices[0].message.content or "") in choices


def test_free_text_may_be_asked_for_by_name(smol: Chat) -> None:
    fields = {"max_tokens": 6}
    assert smol.text("Hi", response_format={"type": "text"}, **fields) == smol.text("Hi", **fields)
