"""Atelico: the openai package's way to call, in process.

client = Atelico()
client.chat.completions.create(model=..., messages=[...], extra_body={"speculative": {"proposer": "prompt_lookup"}})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, overload

from atelico.config import EngineConfig
from atelico.embedding.wire import EmbeddingResponse, request_of, response_of
from atelico.engine import Engine
from atelico.job import Job
from atelico.protocol.response import ChatCompletion, ChatCompletionChunk


class ChatStream:
    """A streamed answer: iterate it once. Leaving it early, or `close`, cancels the request."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._chunks = job.chunks()

    def __iter__(self) -> Iterator[ChatCompletionChunk]:
        return self

    def __next__(self) -> ChatCompletionChunk:
        return next(self._chunks)

    def close(self) -> None:
        """Cancel what has not been read yet."""
        self._job.cancel()

    def __del__(self) -> None:
        # A generator that was never started runs no `finally` when it is dropped.
        self._job.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Completions:
    """`client.chat.completions`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @overload
    def create(
        self,
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: Literal[False] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> ChatCompletion: ...

    @overload
    def create(
        self,
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: Literal[True],
        extra_body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> ChatStream: ...

    def create(
        self,
        *,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        stream: bool | None = None,
        extra_body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> ChatCompletion | ChatStream:
        """Answer a chat request.

        Args:
            model, messages, fields: the request's fields; see docs/requests.md.
            stream: True returns chunks as they are made.
            extra_body: further fields, such as `speculative`; they win over `fields`.
            timeout: seconds to wait for a whole answer; without effect on a stream.

        Raises:
            TimeoutError: no answer within `timeout`.
            AtelicoError: the request is wrong or failed.
        """
        request = {"model": model, "messages": messages, "stream": stream, **fields, **(extra_body or {})}
        if request["stream"]:
            return ChatStream(self._engine.submit(request))
        return self._engine.chat_completion(request, timeout)


class Chat:
    """`client.chat`."""

    def __init__(self, engine: Engine) -> None:
        self.completions = Completions(engine)


class Embeddings:
    """`client.embeddings`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(
        self,
        *,
        model: str,
        input: str | Sequence[str],
        encoding_format: Literal["float", "base64"] | None = None,
        dimensions: int | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> EmbeddingResponse:
        """The embeddings of a text, or of each text of a list.

        Args:
            model: an embedding model.
            encoding_format: "base64" gives each vector as base64 of little-endian float32 instead of a list.
            dimensions: only so many of the first ones, for models that were trained for that.
            timeout: seconds to wait at most.
            fields: further fields of OpenAI's, which are not used.

        Raises:
            TimeoutError: not within `timeout`.
            AtelicoError: the request is wrong or failed.
        """
        given = {"model": model, "input": input, "encoding_format": encoding_format, "dimensions": dimensions}
        request = request_of({**given, **fields})
        return response_of(request, self._engine.embed(request.model, request.input, timeout))


class Atelico:
    """A client whose requests are answered in this process. Close it, or use it as a context manager."""

    def __init__(self, config: EngineConfig | None = None, *, engine: Engine | None = None) -> None:
        """`engine`: use this one, which stays the caller's to close; None makes one from `config`."""
        self._owns_engine = engine is None
        self.engine = Engine(config) if engine is None else engine
        self.chat = Chat(self.engine)
        self.embeddings = Embeddings(self.engine)

    def close(self) -> None:
        """Close the engine, if it was made here."""
        if self._owns_engine:
            self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
