"""The unmodified openai package against the server, sync and async."""

from __future__ import annotations

import asyncio
from typing import Literal

import openai
import pydantic
import pytest

from support.chat import SMOLLM2, Chat
from support.server import LINE, Running, chat


class Character(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    job: Literal["smith", "baker"]
    age: int = pydantic.Field(ge=1, le=99)


def test_an_answer_has_the_package_s_types_and_our_report(client: openai.OpenAI, smol: Chat) -> None:
    answer = client.chat.completions.create(**chat())
    assert answer.choices[0].message.content == smol.text(LINE, max_tokens=8)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None and answer.usage.completion_tokens == 8
    assert answer.model_dump()["atelico"]["device"] == "cpu"
    assert answer._request_id


def test_a_streamed_answer_equals_the_whole_one(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**chat(max_tokens=16))
    chunks = list(
        client.chat.completions.create(**chat(max_tokens=16), stream=True, stream_options={"include_usage": True})
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(c.choices[0].delta.role is None for c in chunks[1:] if c.choices)
    assert chunks[-1].choices == [] and chunks[-1].usage is not None and whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({c.id for c in chunks}) == 1


def test_the_helper_for_streams_accumulates_the_same_text(client: openai.OpenAI) -> None:
    request = chat(max_tokens=32, stop=["e"])  # the helper refuses an answer that was cut by its length
    whole = client.chat.completions.create(**request)
    with client.chat.completions.stream(**request) as stream:
        for _event in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].message.content == whole.choices[0].message.content


def test_a_stream_without_usage_asked_for_has_a_choice_in_every_chunk(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(**chat(), stream=True))
    assert all(chunk.choices for chunk in chunks)
    assert all(chunk.usage is None for chunk in chunks)


def test_continuous_usage_grows_to_the_total(client: openai.OpenAI) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = list(client.chat.completions.create(**chat(), stream=True, stream_options=options))
    counts = [chunk.usage.completion_tokens for chunk in chunks if chunk.usage is not None]
    assert len(counts) > 2
    assert counts == sorted(counts)
    assert counts[-1] == 8


def test_speculation_is_asked_for_in_extra_body_and_changes_no_text(client: openai.OpenAI) -> None:
    text = "Repeat this line: the key lies under the third stone, the key lies under the third stone."
    plain = client.chat.completions.create(**chat(text, max_tokens=32))
    options = {"speculative": {"proposer": "prompt_lookup", "k": 5}, "atelico": {"governor": "off"}}
    drafted = client.chat.completions.create(**chat(text, max_tokens=32), extra_body=options)
    assert drafted.choices[0].message.content == plain.choices[0].message.content
    report = drafted.model_dump()["atelico"]["speculation"]
    assert report["active"] and report["proposed"] > 0
    assert sum(report["proposed_sources"].values()) == report["proposed"]


def test_accepted_drafts_leave_as_one_chunk(client: openai.OpenAI) -> None:
    text = "Repeat this line: the key lies under the third stone, the key lies under the third stone."
    options = {"speculative": {"proposer": "prompt_lookup", "k": 5}, "atelico": {"governor": "off"}}
    request = chat(text, max_tokens=48)
    chunks = list(client.chat.completions.create(**request, extra_body=options, stream=True))
    report = chunks[-1].model_dump()["atelico"]["speculation"]
    n_text = sum(bool(c.choices[0].delta.content) for c in chunks)
    assert report["accepted"] > 0
    assert n_text <= 48 - report["accepted"] + 1


def test_parse_returns_the_pydantic_object(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**chat("Describe a villager.", max_tokens=90), response_format=Character)
    assert isinstance(answer.choices[0].message.parsed, Character)


def test_logprobs_cover_every_token(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**chat(), logprobs=True, top_logprobs=3)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert "".join(token.token for token in logprobs.content) == answer.choices[0].message.content
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in logprobs.content)


def test_streamed_logprobs_are_the_same(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**chat(), logprobs=True)
    chunks = client.chat.completions.create(**chat(), logprobs=True, stream=True)
    streamed = [t for c in chunks for t in ((c.choices[0].logprobs and c.choices[0].logprobs.content) or [])]
    assert whole.choices[0].logprobs is not None and whole.choices[0].logprobs.content is not None
    assert [token.token for token in streamed] == [token.token for token in whole.choices[0].logprobs.content]


def test_several_choices_come_with_their_index_streamed_or_not(client: openai.OpenAI) -> None:
    request = {**chat(), "temperature": 0.9, "seed": 3, "n": 3}
    whole = client.chat.completions.create(**request)
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(**request, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert texts == [choice.message.content for choice in whole.choices]


def test_models_are_listed_and_found_one_by_one(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert SMOLLM2 in names
    assert client.models.retrieve(SMOLLM2).id == SMOLLM2
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/no-such-model")


LONG = [{"role": "user", "content": "x " * 3000}]
UNENFORCEABLE = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}, "strict": True}}


@pytest.mark.parametrize(
    ("change", "kind", "code", "param"),
    [
        ({"model": "no-such-model"}, openai.NotFoundError, "model_not_found", "model"),
        ({"temperature": 9}, openai.BadRequestError, "invalid_value", "temperature"),
        ({"messages": []}, openai.BadRequestError, "invalid_value", "messages"),
        ({"messages": LONG}, openai.BadRequestError, "context_length_exceeded", "messages"),
        (
            {"response_format": UNENFORCEABLE},
            openai.BadRequestError,
            "invalid_schema",
            "response_format.json_schema.schema",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_the_package_s_exceptions_even_before_a_stream(
    client: openai.OpenAI,
    change: dict[str, object],
    kind: type[openai.APIStatusError],
    code: str,
    param: str,
    stream: bool,
) -> None:
    with pytest.raises(kind) as caught:
        client.chat.completions.create(**{**chat(), **change}, stream=stream)
    assert (caught.value.code, caught.value.param) == (code, param)
    assert caught.value.type == "invalid_request_error"


def test_the_async_client_gets_many_answers_at_once(server: Running) -> None:
    """Each its own: every request may be answered by its own number only."""

    def request(i: int) -> dict[str, object]:
        schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": f"number {i}"}}}
        return chat(f"Say number {i}.", max_tokens=20, response_format=schema)

    async def ask_all() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:

            async def whole(i: int) -> str | None:
                return (await client.chat.completions.create(**request(i))).choices[0].message.content

            async def streamed(i: int) -> str:
                stream = await client.chat.completions.create(**request(i), stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            return list(await asyncio.gather(*(f(i) for i in range(6) for f in (whole, streamed))))

    assert asyncio.run(ask_all()) == [f'"number {i}"' for i in range(6) for _ in range(2)]
