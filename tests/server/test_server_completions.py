"""The legacy endpoint: raw prompts, several at once, its own shapes."""

from __future__ import annotations

import openai
import pytest

from support.chat import SMOLLM2, Chat

PROMPTS = ("1, 2, 3, 4, 5, 6,", "A B C D E F G")
LEGACY = {"model": SMOLLM2, "temperature": 0, "max_tokens": 8}


def test_a_prompt_is_continued_without_a_template(client: openai.OpenAI, smol: Chat) -> None:
    answer = client.completions.create(**LEGACY, prompt="The capital of France is")
    job = smol.engine.submit(smol.request("unused", max_tokens=8), prompt="The capital of France is")
    assert answer.choices[0].text == job.result(60).choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(smol.tokenize("The capital of France is"))
    assert answer.object == "text_completion"


def test_several_prompts_get_their_own_choices(client: openai.OpenAI) -> None:
    alone = [client.completions.create(**LEGACY, prompt=prompt).choices[0].text for prompt in PROMPTS]
    answer = client.completions.create(**LEGACY, prompt=list(PROMPTS), n=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in answer.choices] == [alone[0], alone[0], alone[1], alone[1]]
    assert answer.usage is not None and answer.usage.completion_tokens == 32


def test_streamed_texts_equal_the_whole_ones(client: openai.OpenAI) -> None:
    request = {**LEGACY, "prompt": list(PROMPTS), "echo": True}
    whole = [choice.text for choice in client.completions.create(**request).choices]
    texts = ["", ""]
    usage = None
    for chunk in client.completions.create(**request, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == whole
    assert whole[0].startswith("1, 2, 3,")
    assert usage is not None and usage.completion_tokens == 16


def test_logprobs_have_the_legacy_shape(client: openai.OpenAI) -> None:
    answer = client.completions.create(**LEGACY, prompt="One, two,", logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.tokens is not None and logprobs.top_logprobs is not None
    assert "".join(logprobs.tokens) == answer.choices[0].text
    assert logprobs.text_offset == [len("".join(logprobs.tokens[:i])) for i in range(8)]
    assert all(len(candidates) == 2 for candidates in logprobs.top_logprobs)


def test_an_empty_prompt_begins_a_text(client: openai.OpenAI) -> None:
    answer = client.completions.create(**LEGACY, prompt="")
    assert answer.usage is not None and answer.usage.prompt_tokens == 1
    assert answer.choices[0].text


def test_the_options_of_chats_hold_for_texts(client: openai.OpenAI) -> None:
    def n_cached(**extra: object) -> int:
        answer = client.completions.create(**LEGACY, prompt=f"{PROMPTS[0]} " * 8, extra_body=extra)
        found: int = (answer.model_extra or {})["atelico"]["cached_tokens"]
        return found

    n_cached()
    assert n_cached() > 0
    assert n_cached(cache_prompt=False) == 0
    assert n_cached(atelico={"reproducible": "on"}) == 0


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"extra_body": {"atelico": {"priority": "urgent"}}}, "atelico.priority"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, 2]}, "prompt[0]"),
        ({"prompt": "x " * 3000}, "prompt"),
        ({"stop": ["x"] * 40}, "stop"),
    ],
)
def test_what_cannot_be_done_is_refused(client: openai.OpenAI, change: dict[str, object], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{**LEGACY, "prompt": "x", **change})
    assert caught.value.param == param
