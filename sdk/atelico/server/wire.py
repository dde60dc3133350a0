"""JSON shapes that only the server speaks: legacy completions, models, health."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from atelico.errors import InvalidRequestError
from atelico.protocol.base import Count, Wire
from atelico.protocol.request import ChatRequest, GenerationFields
from atelico.protocol.response import AtelicoInfo, FinishReason, Usage

DEFAULT_MAX_TOKENS = 16  # OpenAI's default of this endpoint
_MAX_PROMPTS = 128


class CompletionRequest(GenerationFields, kw_only=True):
    """A legacy completion request: the prompt goes to the model as it is, without a chat template."""

    prompt: str | Annotated[list[str], Meta(min_length=1, max_length=_MAX_PROMPTS)]
    max_tokens: Count | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    best_of: Annotated[int, Meta(ge=1, le=128)] | None = None
    echo: bool | None = None
    suffix: str | None = None

    def prompts(self) -> list[str]:
        """The prompts as a list."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    def chat_request(self) -> ChatRequest:
        """The same options as a chat request without messages.

        Raises:
            InvalidRequestError: a field that is not supported here.
        """
        if self.suffix:
            raise InvalidRequestError("suffix is not supported.", param="suffix", hint="Remove it.")
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise InvalidRequestError("best_of is supported only where it equals n.", param="best_of")
        if self.echo and self.logprobs is not None:
            raise InvalidRequestError("echo has no logprobs: the prompt's are not computed.", param="echo")
        shared = {name: getattr(self, name) for name in GenerationFields.__struct_fields__}
        return ChatRequest(
            messages=[],
            max_tokens=self.max_tokens or DEFAULT_MAX_TOKENS,
            logprobs=self.logprobs is not None,
            top_logprobs=self.logprobs,
            **shared,
        )


class CompletionLogprobs(Wire):
    """Log-probabilities in the legacy shape: parallel lists, one entry per token."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(Wire):
    """One text; in a stream, what a chunk adds to it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishReason | None = None


class Completion(Wire):
    """A legacy completion, whole or one chunk of it. `atelico` comes with the last chunk."""

    id: str
    created: int
    model: str
    choices: list[CompletionChoice]
    object: Literal["text_completion"] = "text_completion"
    system_fingerprint: str | None = None
    usage: Usage | None = None
    atelico: AtelicoInfo | None = None


class ModelCard(Wire):
    """One model that a request may name. `created`: when its file was made, in seconds since 1970."""

    id: str
    created: int
    owned_by: str
    object: Literal["model"] = "model"


class ModelList(Wire):
    """All of them."""

    data: list[ModelCard]
    object: Literal["list"] = "list"


class Health(Wire):
    """Who answers here, and whether new requests are taken."""

    status: Literal["ok", "stopping"]
    version: str
    models: dict[str, str] = msgspec.field(default_factory=dict)
    name: Literal["atelico"] = "atelico"
