"""Tools through the unmodified openai package: a whole round trip, its stream helper, pydantic arguments."""

from __future__ import annotations

import json
from typing import Literal

import openai
import pydantic
import pytest

from support.server import chat
from support.tools import DOOR, WEATHER


class GetWeather(pydantic.BaseModel):
    """The weather of a city."""

    city: str = pydantic.Field(max_length=12)
    unit: Literal["C", "F"]


def test_a_round_trip_with_a_result(client: openai.OpenAI) -> None:
    request = chat("What is the weather in Oslo?", max_tokens=60, tools=[WEATHER, DOOR], parallel_tool_calls=False)
    first = client.chat.completions.create(**request, tool_choice="required")
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert message.tool_calls is not None and message.content is None
    call = message.tool_calls[0]
    assert call.type == "function"
    assert isinstance(json.loads(call.function.arguments), dict)
    result = {"role": "tool", "tool_call_id": call.id, "content": "Seven degrees."}
    request["messages"] = [*request["messages"], message.model_dump(), result]
    second = client.chat.completions.create(**request, tool_choice="none")
    assert second.choices[0].message.content
    assert second.choices[0].message.tool_calls is None


def test_pydantic_arguments_are_parsed(client: openai.OpenAI) -> None:
    request = chat("What is the weather in Oslo?", max_tokens=60)
    choice = {"type": "function", "function": {"name": "GetWeather"}}
    answer = client.chat.completions.parse(
        **request, tools=[openai.pydantic_function_tool(GetWeather)], tool_choice=choice
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert isinstance(calls[0].function.parsed_arguments, GetWeather)


def test_the_stream_helper_accumulates_the_call(client: openai.OpenAI) -> None:
    request = chat("What is the weather in Oslo?", max_tokens=60, tools=[WEATHER], parallel_tool_calls=False)
    request["tool_choice"] = "required"
    whole = client.chat.completions.create(**request)
    with client.chat.completions.stream(**request) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    calls, expected = final.choices[0].message.tool_calls, whole.choices[0].message.tool_calls
    assert calls is not None and expected is not None
    assert [c.function.arguments for c in calls] == [c.function.arguments for c in expected if c.type == "function"]
    assert [c.function.name for c in calls] == ["get_weather"]
    assert calls[0].id.startswith("call_")
    assert "tool_calls.function.arguments.delta" in kinds


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "nothing"}}}, "tool_choice"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ],
)
def test_wrong_tools_are_refused_with_the_field(client: openai.OpenAI, change: dict[str, object], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{**chat(tools=[WEATHER]), **change})
    assert caught.value.param == param
