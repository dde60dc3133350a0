"""Requests on the wire: what is accepted, and how each mistake is named."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atelico.errors import AtelicoError, InvalidJSONError, InvalidRequestError
from atelico.protocol.base import encode
from atelico.protocol.error import error_body
from atelico.protocol.read import decode_request
from atelico.protocol.request import ChatRequest

USER = {"role": "user", "content": "Hi"}
MINIMAL: dict[str, Any] = {"model": "m", "messages": [USER]}
OPTIONAL = sorted(set(ChatRequest.__struct_fields__) - {"model", "messages"})


def decode(**fields: Any) -> ChatRequest:
    return decode_request(json.dumps({**MINIMAL, **fields}))


def with_field(field: str, value: bytes) -> bytes:
    """A body in which `field` has a value that Python's own writer would not produce."""
    return b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "%s": %s}' % (field.encode(), value)


def fault(**fields: Any) -> InvalidRequestError:
    """The error that `fields` cause."""
    with pytest.raises(InvalidRequestError) as caught:
        decode(**fields)
    return caught.value


@pytest.mark.parametrize("field", OPTIONAL)
def test_every_optional_field_may_be_null(field: str) -> None:
    assert getattr(decode(**{field: None}), field) is None


@pytest.mark.parametrize("field", ["model", "messages"])
def test_a_missing_or_null_required_field_is_named(field: str) -> None:
    assert fault(**{field: None}).param == field
    with pytest.raises(InvalidRequestError) as caught:
        decode_request({key: value for key, value in MINIMAL.items() if key != field})
    assert (caught.value.param, caught.value.code) == (field, "missing_field")


@pytest.mark.parametrize("field", [*OPTIONAL, "model", "messages"])
def test_a_wrong_type_is_an_error_that_names_the_field(field: str) -> None:
    # No field takes a list that holds a list.
    error = fault(**{field: [[1]]})
    assert error.param is not None
    assert error.param.split("[")[0] == field
    assert error.http_status == 400
    assert field in error.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.01),
        ("top_p", 1.5),
        ("top_p", -1e-9),
        ("min_p", 2),
        ("top_k", -2),
        ("top_k", 2**31),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_completion_tokens", 2**40),
        ("seed", 2**63),
        ("seed", -(2**63) - 1),
        ("n", 0),
        ("n", 129),
        ("frequency_penalty", 2.5),
        ("presence_penalty", -2.5),
        ("repetition_penalty", 0),
        ("top_logprobs", 21),
        ("logit_bias", {"5": 101}),
        ("logit_bias", {"five": 1}),
        ("logit_bias", {"-5": 1}),
        ("stop", ["a"] * 17),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", 5),
        ("model", ""),
        ("messages", []),
        ("messages", "Hi"),
        ("tools", [{"type": "function"}]),
        ("stream", "yes"),
        ("seed", 1.5),
        ("seed", True),
        ("max_tokens", "12"),
        ("temperature", "0"),
        ("speculative", "prompt_lookup"),
        ("response_format", "json"),
    ],
)
def test_a_value_out_of_range_is_an_error_that_names_the_field(field: str, value: Any) -> None:
    assert (fault(**{field: value}).param or "").startswith(field)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"messages": [USER, {"role": "robot", "content": "Hi"}]}, "messages[1].role"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "system", "content": None}]}, "messages[0].content"),
        ({"messages": [None]}, "messages[0]"),
        ({"speculative": {"k": 0}}, "speculative.k"),
        ({"speculative": {"k": -3}}, "speculative.k"),
        ({"speculative": {"k": 2.5}}, "speculative.k"),
        ({"speculative": {"k": True}}, "speculative.k"),
        ({"speculative": {"proposer": 5}}, "speculative.proposer"),
        ({"speculative": {"acceptance": "always"}}, "speculative.acceptance"),
        ({"speculative": {"acceptance": 1}}, "speculative.acceptance"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_object", "schema": 5}}, "response_format.schema"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ],
    ids=str,
)
def test_an_error_inside_a_field_carries_the_whole_path(fields: dict[str, Any], path: str) -> None:
    assert fault(**fields).param == path


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({"speculative": {"acceptance": "always"}}, "exact, stochastic"),
        ({"response_format": {"type": "yaml"}}, "text, json_object, json_schema"),
        ({"messages": [USER, {"role": "robot", "content": "Hi"}]}, "assistant, developer, system, tool, user"),
        ({"tool_choice": "maybe"}, "auto, none, required"),
        ({"tool_choice": {"type": "tool"}}, "function, allowed_tools"),
        ({"atelico": {"priority": "urgent"}}, "high, low, normal"),
        ({"atelico": {"reproducible": True}}, "off, on"),
        ({"prediction": {"type": "text", "content": ""}}, "content"),
    ],
    ids=str,
)
def test_a_wrong_word_is_answered_with_the_right_ones(fields: dict[str, Any], allowed: str) -> None:
    assert fault(**fields).hint == f"Use one of: {allowed}."


def test_a_wrong_number_has_no_words_to_offer() -> None:
    assert not fault(temperature=3).hint


def test_unknown_fields_are_tolerated_everywhere_and_listed_in_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "atelico.protocol.read"):
        request = decode(
            store=True, zebra={"a": [1]}, messages=[{**USER, "mood": "sad"}], speculative={"proposer": "pld", "x": 1}
        )
    assert request.messages[0].text() == "Hi"
    assert [record.getMessage() for record in caplog.records] == ["ignored unknown request fields: store, zebra"]


def test_of_duplicate_keys_the_last_counts() -> None:
    body = b'{"model": "a", "model": "b", "messages": [{"role": "user", "content": "Hi"}], "seed": 1, "seed": 2}'
    assert (decode_request(body).model, decode_request(body).seed) == ("b", 2)


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"0x10", b"01", b"1."])
def test_numbers_that_are_no_json_or_no_number_are_refused(token: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        decode_request(
            b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": ' + token + b"}"
        )


@pytest.mark.parametrize("field", ["seed", "max_tokens", "top_k", "n", "temperature", "logit_bias"])
def test_a_number_of_a_thousand_digits_is_refused(field: str) -> None:
    number = b"9" * 1_000
    value = b'{"1": ' + number + b"}" if field == "logit_bias" else number
    with pytest.raises(InvalidRequestError):
        decode_request(with_field(field, value))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_python_objects_meet_the_same_number_checks(value: float) -> None:
    # JSON has no NaN; msgspec writes null, which is "not given".
    assert decode_request({**MINIMAL, "temperature": value}).temperature is None


@pytest.mark.parametrize("value", [object(), {1, 2}, b"\xff", {3: object()}], ids=["object", "set", "bytes", "key"])
def test_python_objects_that_are_no_json_are_refused_or_written_as_text(value: Any) -> None:
    try:
        assert isinstance(decode_request({**MINIMAL, "unknown": value}), ChatRequest)
    except InvalidRequestError as error:
        assert "JSON" in str(error)


@pytest.mark.parametrize("depth", [200, 10_000, 200_000])
@pytest.mark.parametrize("field", ["metadata", "unknown", "messages", "response_format"])
def test_deep_nesting_is_refused_or_read_but_never_a_crash(field: str, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    try:
        assert decode_request(with_field(field, nested.encode())).model == "m"
    except InvalidRequestError as error:
        assert error.code in ("invalid_json", "invalid_value", "missing_field")


def test_a_python_object_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(InvalidJSONError, match="nested too deeply"):
        decode_request({**MINIMAL, "metadata": loop})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b"[]",
        b"null",
        b"5",
        b'"text"',
        b"\xff\xfe",
        b'{"model": "\xff"}',
        b"{'a': 1}",
        b"\x00" * 9,
        "{",
    ],
    ids=repr,
)
def test_what_is_no_json_object_is_one_typed_error(body: bytes | str) -> None:
    with pytest.raises(InvalidRequestError):
        decode_request(body)


def test_text_that_is_not_utf8_is_said_to_be_that() -> None:
    with pytest.raises(InvalidJSONError, match="UTF-8"):
        decode_request(b'{"model": "m", "messages": [{"role": "user", "content": "\xc3\x28"}]}')


def test_a_lone_surrogate_in_python_text_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        decode_request({**MINIMAL, "user": "\ud800"})
    with pytest.raises(InvalidRequestError):
        decode_request('{"model": "\ud800"}')


def test_a_body_over_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(InvalidJSONError, match="20000000 bytes"):
        decode_request(b"x" * 20_000_000)


@given(st.binary(max_size=200))
def test_any_bytes_raise_nothing_but_our_own_errors(body: bytes) -> None:
    try:
        decode_request(body)
    except AtelicoError as error:
        assert error.http_status == 400
        assert json.loads(encode(error_body(error)))["error"]["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(ChatRequest.__struct_fields__), JSON, max_size=4))
def test_any_json_in_any_field_raises_nothing_but_our_own_errors(fields: dict[str, Any]) -> None:
    try:
        request = decode_request({**MINIMAL, **fields})
    except InvalidRequestError as error:
        assert error.message
    else:
        assert request.messages


def test_a_message_may_have_its_text_in_parts() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    assert decode(messages=[{"role": "user", "content": parts}]).messages[0].text() == "Hello"


def test_the_newer_token_limit_wins_over_the_older() -> None:
    assert decode(max_tokens=5, max_completion_tokens=7).token_limit() == 7
    assert decode(max_tokens=5).token_limit() == 5
    assert decode().token_limit() is None


def test_top_logprobs_need_logprobs() -> None:
    assert fault(top_logprobs=3).param == "top_logprobs"
    assert decode(top_logprobs=3, logprobs=True).top_logprobs == 3


TOOL = {"type": "function", "function": {"name": "open_door", "parameters": {"type": "object"}}}


def test_a_tool_choice_must_fit_the_tools() -> None:
    assert decode(tools=[TOOL]).tools[0].function.name == "open_door"
    assert decode(tools=[]).tools == []
    assert fault(tools=[TOOL, TOOL]).param == "tools[1].function.name"
    assert fault(tool_choice="required").param == "tool_choice"
    assert fault(tools=[TOOL], tool_choice="sometimes").param == "tool_choice"
    assert fault(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "shut"}}).param == "tool_choice"
    named = {"type": "function", "function": {"name": "open_door"}}
    assert decode(tools=[TOOL], tool_choice=named).tool_choice.function.name == "open_door"
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named]}}
    assert decode(tools=[TOOL], tool_choice=allowed).tool_choice.allowed_tools.mode == "auto"


@pytest.mark.parametrize("name", ["", "open door", "x" * 65, "t\u00fcr"])
def test_a_function_needs_a_proper_name(name: str) -> None:
    assert fault(tools=[{"type": "function", "function": {"name": name}}]).param == "tools[0].function.name"
