"""Tool calls of a real model: enforced arguments, OpenAI's shapes, the same streamed, drafted and over HTTP."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from atelico import Atelico
from atelico.errors import SchemaError
from atelico.models.template import ChatTemplate
from atelico.protocol.request import Message, ToolCall
from atelico.protocol.response import ChatCompletion
from support.chat import Chat
from support.tools import DOOR, SCHEMAS, WEATHER

QUESTION = "What is the weather in Oslo?"
NAMED = {"type": "function", "function": {"name": "get_weather"}}
ONE: dict[str, Any] = {"tools": [WEATHER, DOOR], "max_tokens": 60, "parallel_tool_calls": False}


def calls_of(answer: ChatCompletion) -> list[ToolCall]:
    return answer.choices[0].message.tool_calls or []


def check(calls: list[ToolCall]) -> None:
    """Every call is of a tool that was offered, with arguments that fit its schema."""
    for call in calls:
        assert call.id and call.type == "function"
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])


def test_required_gives_one_valid_call_and_no_text(smol: Chat) -> None:
    answer = smol.ask(QUESTION, **ONE, tool_choice="required")
    assert len(calls_of(answer)) == 1
    check(calls_of(answer))
    assert answer.choices[0].message.content is None
    assert answer.choices[0].finish_reason == "tool_calls"


def test_a_named_function_is_the_one_that_is_called(smol: Chat) -> None:
    for name in ("get_weather", "open_door"):
        answer = smol.ask(QUESTION, **ONE, tool_choice={"type": "function", "function": {"name": name}})
        assert [call.function.name for call in calls_of(answer)] == [name]
        check(calls_of(answer))
        assert answer.choices[0].finish_reason == "stop"  # as OpenAI has it for a named function


def test_a_function_without_arguments_gets_an_empty_object(smol: Chat) -> None:
    choice = {"type": "function", "function": {"name": "open_door"}}
    assert calls_of(smol.ask(QUESTION, **ONE, tool_choice=choice))[0].function.arguments == "{}"


def test_only_allowed_tools_are_called(smol: Chat) -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
    assert [call.function.name for call in calls_of(smol.ask(QUESTION, **ONE, tool_choice=choice))] == ["get_weather"]


def test_several_calls_have_ids_of_their_own(smol: Chat) -> None:
    found = 0
    for seed in range(4):
        fields = {**ONE, "parallel_tool_calls": True, "max_tokens": 150, "temperature": 1.0, "seed": seed}
        answer = smol.ask(QUESTION, **fields, tool_choice="required")
        calls = calls_of(answer)
        if answer.choices[0].finish_reason == "tool_calls":
            check(calls)
        assert len({call.id for call in calls}) == len(calls)
        found = max(found, len(calls))
    assert found > 1


def test_none_and_no_tools_are_plain_text(smol: Chat) -> None:
    plain = smol.text(QUESTION)
    assert smol.text(QUESTION, tools=[WEATHER], tool_choice="none") == plain
    assert smol.text(QUESTION, tools=[]) == plain
    assert smol.ask(QUESTION, tools=[WEATHER], tool_choice="none").choices[0].message.tool_calls is None


def test_auto_may_answer_in_words(smol: Chat) -> None:
    """This model has no tool format of its own and greets; whatever it does is either text or valid calls."""
    for text in ("Hello!", QUESTION):
        answer = smol.ask(text, **ONE)
        check(calls_of(answer))
        assert bool(answer.choices[0].message.content) != bool(calls_of(answer))


def test_auto_is_enforced_once_a_call_has_begun(smol: Chat) -> None:
    """Biased towards the first token of a call, it must go on as one."""
    first = smol.tokenize('{"')[0]
    answer = smol.ask(QUESTION, **ONE, logit_bias={str(first): 100}, seed=1)
    assert answer.choices[0].message.content or calls_of(answer)
    check(calls_of(answer) if answer.choices[0].finish_reason == "tool_calls" else [])


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 0.9, "seed": 3}, {"temperature": 0, "n": 2}])
def test_a_stream_joins_to_the_whole_answer(smol: Chat, fields: dict[str, Any]) -> None:
    request = {**ONE, **fields, "tool_choice": "required", "parallel_tool_calls": True}
    job = smol.submit(QUESTION, **request, stream=True)
    chunks = list(job.chunks())
    whole = job.result(60)
    for choice in whole.choices:
        names: list[str] = []
        arguments: list[str] = []
        reasons: list[str] = []
        for chunk in chunks:
            for part in chunk.choices:
                if part.index != choice.index:
                    continue
                reasons += [part.finish_reason] if part.finish_reason else []
                indices = [delta.index for delta in part.delta.tool_calls or ()]
                assert len(set(indices)) == len(indices)
                for delta in part.delta.tool_calls or ():
                    assert delta.function is not None
                    assert (delta.id is None) == (delta.index < len(names))
                    if delta.index == len(names):
                        names.append(delta.function.name or "")
                        arguments.append("")
                    arguments[delta.index] += delta.function.arguments or ""
        calls = choice.message.tool_calls or []
        assert names == [call.function.name for call in calls]
        assert arguments == [call.function.arguments for call in calls]
        assert reasons == [choice.finish_reason]


def test_an_empty_stream_has_no_tool_calls_field(smol: Chat) -> None:
    chunks = smol.chunks("Hello!", max_tokens=4)
    assert all("tool_calls" not in chunk.choices[0].delta.model_dump() for chunk in chunks)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("choice", ["required", NAMED])
def test_speculation_changes_no_call(smol: Chat, choice: Any, k: int) -> None:
    fields = {**ONE, "tool_choice": choice, "atelico": {"governor": "off"}}
    plain = smol.ask(QUESTION, **fields)
    drafted = smol.ask(QUESTION, **fields, speculative={"proposer": "prompt_lookup", "k": k})
    assert [c.function for c in calls_of(drafted)] == [c.function for c in calls_of(plain)]
    assert drafted.usage.completion_tokens == plain.usage.completion_tokens
    assert drafted.atelico.speculation.sources.get("grammar", 0) > 0  # what is forced costs nothing


def test_beside_a_response_format_there_is_a_document_or_a_call(smol: Chat) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"]}
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": {**schema, "additionalProperties": False}}}
    for seed in range(3):
        answer = smol.ask(QUESTION, **ONE, response_format=shape, temperature=1.0, seed=seed)
        if answer.choices[0].finish_reason == "stop":
            jsonschema.validate(json.loads(answer.choices[0].message.content or ""), schema)
        check(calls_of(answer) if answer.choices[0].finish_reason == "tool_calls" else [])


def test_a_call_that_is_cut_says_so_and_keeps_what_there_is(smol: Chat) -> None:
    answer = smol.ask(QUESTION, **{**ONE, "max_tokens": 14}, tool_choice=NAMED)
    assert answer.choices[0].finish_reason == "length"
    assert calls_of(answer)[0].function.name == "get_weather"
    assert not calls_of(answer)[0].function.arguments.endswith("}")


def test_a_result_is_read_in_the_next_turn(smol: Chat) -> None:
    client = Atelico(engine=smol.engine)
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    first = client.chat.completions.create(**smol.request(messages, **ONE, tool_choice=NAMED))
    call = calls_of(first)[0]
    messages += [
        first.choices[0].message.model_dump(),
        {"role": "tool", "tool_call_id": call.id, "content": "Seven degrees and rain."},
    ]
    second = client.chat.completions.create(**smol.request(messages, **ONE, tool_choice="none"))
    assert second.choices[0].finish_reason in ("stop", "length")
    said = [*messages[:1], {"role": "user", "content": "Seven degrees and rain."}]
    alone = client.chat.completions.create(**smol.request(said))
    assert second.usage.prompt_tokens > alone.usage.prompt_tokens + len(smol.tokenize(call.function.arguments))


@pytest.mark.parametrize(
    "parameters",
    [{"type": "object", "properties": {"x": {"not": {}}}}, {"properties": {"x": {"$ref": "https://x.example/y"}}}],
)
def test_a_schema_that_cannot_be_enforced_names_its_tool(smol: Chat, parameters: dict[str, Any]) -> None:
    bad = {"type": "function", "function": {"name": "bad", "parameters": parameters, "strict": True}}
    with pytest.raises(SchemaError) as caught:
        smol.ask(QUESTION, tools=[WEATHER, bad])
    assert (caught.value.param, caught.value.code) == ("tools[1].function.parameters", "invalid_function_parameters")


def test_a_schema_that_is_weakened_gives_a_warning(smol: Chat) -> None:
    loose = {"type": "object", "properties": {"x": {"type": "string", "not": {"const": "a"}}}, "required": ["x"]}
    tool = {"type": "function", "function": {"name": "loose", "parameters": loose}}
    answer = smol.ask(QUESTION, tools=[tool], tool_choice="required", max_tokens=60)
    assert any(warning.startswith("tools[0]:") and "not" in warning for warning in answer.atelico.warnings)


def test_a_template_that_shows_tools_gets_them_as_a_variable() -> None:
    text = "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}{{ messages[0].content }}"
    template = ChatTemplate(text, "model")
    message = Message(role="user", content="x")
    assert "".join(s.text for s in template.render_segments([message], tools=[WEATHER])) == "[get_weather]x"
    assert "".join(s.text for s in template.render_segments([message])) == "x"
