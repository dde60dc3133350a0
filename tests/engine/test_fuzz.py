"""Random requests: nothing but our own errors comes out, none of them a defect, and the next request works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atelico.errors import AtelicoError, InternalError
from atelico.protocol.base import encode
from atelico.protocol.request import ChatRequest
from support.chat import Chat

FUZZ = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))

TEXT = st.text(max_size=20) | st.sampled_from(["<|im_end|>", "<think>", "\x00", "🗝️", "{{ x }}", "\ud7ff", "a" * 99])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "developer"]), "content": TEXT},
    optional={"name": TEXT, "reasoning_content": TEXT, "tool_call_id": TEXT},
)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0, 1),
    "min_p": st.floats(0, 1),
    "top_k": st.integers(-1, 2**31 - 1),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "n": st.integers(1, 2),
    "stop": st.lists(st.text(min_size=1, max_size=4), max_size=4),
    "frequency_penalty": st.floats(-2, 2),
    "presence_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.01, 10),
    "logit_bias": st.dictionaries(st.integers(0, 60_000).map(str), st.floats(-100, 100), max_size=3),
    "logprobs": st.just(True),
    "stream": st.booleans(),
    "speculative": st.fixed_dictionaries(
        {"proposer": st.sampled_from(["pld", "lookahead", "auto", "none", "mtp", "x"]), "k": st.integers(1, 400)}
    ),
    "response_format": st.sampled_from([{"type": "json_object"}, {"type": "text"}]),
    "atelico": st.fixed_dictionaries({"governor": st.sampled_from(["on", "off"])}),
}
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "", "any"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"type": TYPES, "enum": st.lists(JSON, max_size=2), "const": JSON}) | JSON,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": st.dictionaries(TEXT, inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "required": JSON,
            "pattern": TEXT,
            "minItems": st.integers(-1, 3),
            "maxLength": JSON,
            "$ref": st.sampled_from(["#", "#/properties/a", "x"]),
        },
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def fuzzed(smol: Chat) -> Iterator[Chat]:
    """The engine of all the others; after the module it must answer as before."""
    before = smol.text("The key is blue. What colour is the key?")
    yield smol
    assert smol.text("The key is blue. What colour is the key?") == before


def survives(chat: Chat, body: Any) -> None:
    """The request is answered, or refused by one of our own errors that is no defect."""
    try:
        answer = chat.engine.chat_completion(body, timeout=60)
    except AtelicoError as error:
        assert not isinstance(error, InternalError), repr(error)
        assert error.http_status < 500
        assert error.message
    else:
        assert json.loads(encode(answer))["choices"]
        assert answer.usage.completion_tokens <= 3 * len(answer.choices)


@given(st.binary(max_size=300))
@FUZZ
def test_random_bytes(fuzzed: Chat, body: bytes) -> None:
    survives(fuzzed, body)


@given(st.dictionaries(st.sampled_from([*ChatRequest.__struct_fields__, "x"]), JSON, max_size=3))
@FUZZ
def test_random_values_in_random_fields(fuzzed: Chat, fields: dict[str, Any]) -> None:
    survives(fuzzed, {**fuzzed.request("Hi"), **fields, "max_tokens": 1, "max_completion_tokens": None, "n": 1})


@given(st.fixed_dictionaries({}, optional=OPTIONS), st.integers(1, 3))
@FUZZ
def test_random_options_within_their_ranges(fuzzed: Chat, fields: dict[str, Any], limit: int) -> None:
    survives(fuzzed, {**fuzzed.request("one two one two one"), **fields, "max_tokens": limit})


@given(st.lists(MESSAGE, min_size=1, max_size=4), st.dictionaries(TEXT, JSON, max_size=2) | st.none())
@settings(FUZZ, max_examples=12)
def test_random_dialogues(fuzzed: Chat, messages: list[dict[str, Any]], variables: dict[str, Any] | None) -> None:
    survives(fuzzed, fuzzed.request(messages, max_tokens=1, chat_template_kwargs=variables))


@given(SCHEMAS, st.booleans())
@FUZZ
def test_random_schemas(fuzzed: Chat, schema: Any, strict: bool) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": strict}}
    survives(fuzzed, fuzzed.request("Hi", max_tokens=3, response_format=wanted))


@given(
    TEXT | st.sampled_from(["in-memory::", "remote::x", "/", "/etc/passwd", "~", "..", "a" * 5000, "x/\ud7ff/y.gguf"])
)
@FUZZ
def test_random_model_names(fuzzed: Chat, name: str) -> None:
    survives(fuzzed, {**fuzzed.request("Hi", max_tokens=1), "model": name})
