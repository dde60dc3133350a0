"""Responses on the wire: users of the openai package read them with its own models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion as OpenAICompletion
from openai.types.chat import ChatCompletionChunk as OpenAIChunk
from pydantic import BaseModel

from atelico import errors
from atelico.errors import AtelicoError
from atelico.protocol.base import Wire, encode
from atelico.protocol.error import error_body
from atelico.protocol.request import FunctionCall, ToolCall
from atelico.protocol.response import (
    AssistantMessage,
    AtelicoInfo,
    ChatCompletion,
    ChatCompletionChunk,
    Choice,
    ChunkChoice,
    CompletionTokensDetails,
    Delta,
    Logprobs,
    SpeculationInfo,
    Timings,
    TokenLogprob,
    TopLogprob,
    Usage,
)

LOGPROB = TokenLogprob(
    token="é", logprob=-0.5, bytes=[195, 169], top_logprobs=[TopLogprob(token="é", logprob=-0.5, bytes=[195, 169])]
)
USAGE = Usage(
    prompt_tokens=3,
    completion_tokens=2,
    total_tokens=5,
    completion_tokens_details=CompletionTokensDetails(reasoning_tokens=1),
)
INFO = AtelicoInfo(
    speculation=SpeculationInfo(proposer="prompt_lookup", active=True, reason=None, rounds=1, sources={"prompt": 2}),
    timings=Timings(prompt_ms=1.5),
    cached_tokens=0,
    device="cpu",
)
COMPLETION = ChatCompletion(
    id="chatcmpl-1",
    created=1_700_000_000,
    model="m",
    choices=[
        Choice(
            index=0,
            message=AssistantMessage(
                content="é",
                reasoning_content="hm",
                tool_calls=[ToolCall(id="1", function=FunctionCall(name="open", arguments="{}"))],
            ),
            finish_reason="stop",
            logprobs=Logprobs(content=[LOGPROB]),
        ),
        Choice(index=1, message=AssistantMessage(content=None), finish_reason="length"),
    ],
    usage=USAGE,
    atelico=INFO,
)


def _chunk(*choices: ChunkChoice, **last: Any) -> ChatCompletionChunk:
    return ChatCompletionChunk(id="chatcmpl-1", created=1, model="m", choices=list(choices), **last)


CHUNKS = [
    _chunk(ChunkChoice(index=0, delta=Delta(role="assistant", content=""))),
    _chunk(ChunkChoice(index=0, delta=Delta(content="é"), logprobs=Logprobs(content=[LOGPROB]))),
    _chunk(ChunkChoice(index=0, delta=Delta(reasoning_content="hm"))),
    _chunk(ChunkChoice(index=0, delta=Delta(), finish_reason="stop")),
    _chunk(usage=USAGE, atelico=INFO),
]


def _compare(ours: object, theirs: object, path: str = "$") -> None:
    """Every attribute of the openai object has the same value on ours."""
    if isinstance(theirs, BaseModel):
        for name in type(theirs).model_fields:
            if getattr(theirs, name) is not None:
                _compare(getattr(ours, name), getattr(theirs, name), f"{path}.{name}")
    elif isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(ours) == len(theirs)
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            _compare(mine, other, f"{path}[{i}]")
    else:
        assert ours == theirs, path


def test_the_openai_package_reads_a_completion_and_finds_the_same_attributes() -> None:
    theirs = OpenAICompletion.model_validate(COMPLETION.model_dump(), strict=True)
    _compare(COMPLETION, theirs)
    assert theirs.choices[0].message.content == "é"


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda chunk: str(chunk.choices))
def test_the_openai_package_reads_every_chunk(chunk: ChatCompletionChunk) -> None:
    theirs = OpenAIChunk.model_validate(chunk.model_dump(), strict=True)
    _compare(chunk, theirs)


@pytest.mark.parametrize("wire", [COMPLETION, *CHUNKS], ids=lambda wire: type(wire).__name__)
def test_dicts_and_json_hold_the_same(wire: Wire) -> None:
    assert json.loads(wire.model_dump_json()) == wire.model_dump() == wire.to_dict()
    assert json.loads(encode(wire)) == json.loads(wire.to_json())


def test_our_own_part_survives_the_openai_package() -> None:
    theirs = OpenAICompletion.model_validate(COMPLETION.model_dump())
    assert theirs.model_extra is not None
    assert theirs.model_extra["atelico"]["speculation"]["sources"] == {"prompt": 2}


def _family(root: type[AtelicoError]) -> list[type[AtelicoError]]:
    return [root, *(found for child in root.__subclasses__() for found in _family(child))]


@pytest.mark.parametrize("kind", _family(AtelicoError), ids=lambda kind: kind.__name__)
def test_every_error_has_a_body_a_status_and_a_result_code(kind: type[AtelicoError]) -> None:
    error = kind("The cause.", hint="The fix.", param="messages[0]")
    body = json.loads(encode(error_body(error)))["error"]
    assert body == {"message": "The cause. The fix.", "type": kind.type, "param": "messages[0]", "code": kind.code}
    assert 400 <= kind.http_status < 600
    assert kind.c_result < 0


def test_a_client_retries_only_what_may_succeed_later() -> None:
    permanent = {kind for kind in _family(AtelicoError) if kind.type == "invalid_request_error"}
    assert errors.ModelLoadError in permanent
    assert errors.BusyError not in permanent
    assert all(kind.http_status < 500 for kind in permanent)
