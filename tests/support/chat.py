"""What tests use to talk to a model: short requests, and a look at the model's memory. No tests, no fixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atelico.decoding.loaded import LoadedModel
from atelico.decoding.prepare import _tokenize
from atelico.engine import Engine
from atelico.job import Job
from atelico.protocol.read import decode_request
from atelico.protocol.response import ChatCompletion, ChatCompletionChunk

Messages = str | Sequence[Mapping[str, Any]]

# The answer repeats the prompt, so that prompt lookup drafts much of it and the greedy choices are clear ones.
REPEAT = (
    "Repeat this text word for word: The old mill by the river has been abandoned for years. The miller's daughter "
    "left a key under the third stone. Nobody has dared to enter since the night of the great flood."
)
# Eight draft tokens in every round, whether they pay or not.
DRAFTING: dict[str, Any] = {"speculative": {"proposer": "prompt_lookup", "k": 8}, "atelico": {"governor": "off"}}

SMOLLM2 = "SmolLM2-135M-Instruct"
GEMMA = "gemma-3-270m"


@dataclass(frozen=True)
class Chat:
    """One model of an engine."""

    engine: Engine
    model: str

    def request(self, messages: Messages, **fields: Any) -> dict[str, Any]:
        """A request; a str is the one user message. Greedy and short unless `fields` say otherwise."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": 12, **fields}

    def submit(self, messages: Messages, **fields: Any) -> Job:
        """A running request."""
        return self.engine.submit(self.request(messages, **fields))

    def ask(self, messages: Messages, **fields: Any) -> ChatCompletion:
        """A finished request."""
        return self.submit(messages, **fields).result(120)

    def text(self, messages: Messages, **fields: Any) -> str:
        """The text of the only answer."""
        return self.ask(messages, **fields).choices[0].message.content or ""

    def chunks(self, messages: Messages, **fields: Any) -> list[ChatCompletionChunk]:
        """A finished request, as the chunks of its stream."""
        return list(self.submit(messages, stream=True, **fields).chunks())

    @property
    def loaded(self) -> LoadedModel:
        """The loaded model, for inspection while nothing runs."""
        self.engine.wait_for_model(self.model, 60)
        loaded = self.engine._workers[str(self.engine.resolve(self.model).path)].loaded
        assert loaded is not None
        return loaded

    def prompt_tokens(self, messages: Messages) -> list[int]:
        """The prompt that the model reads for `messages`."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        request = decode_request({"model": self.model, "messages": messages})
        return _tokenize(self.loaded.template.render_segments(request.messages), self.loaded)

    def prompt_of(self, n_tokens: int) -> str:
        """A user message whose prompt has exactly so many tokens."""
        n_around = len(self.prompt_tokens("yes"))
        text = "yes" + " yes" * (n_tokens - n_around)
        assert len(self.prompt_tokens(text)) == n_tokens
        return text

    def tokenize(self, text: str) -> list[int]:
        """The tokens of plain text."""
        return self.loaded.model.vocabulary.tokenize(text)


def streamed_text(chunks: Sequence[ChatCompletionChunk], choice: int = 0) -> str:
    """The joined deltas of one choice."""
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == choice)
