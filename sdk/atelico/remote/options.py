"""How one remote endpoint is reached, as the configuration says it, and which model names mean one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0.0, le=86_400.0)]
Dialect = Literal["openai", "vllm", "llama-server", "atelico"]

_PREFIX = "remote::"


class RemoteOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One endpoint.

    Attributes:
        url: its base address, such as "http://10.0.0.5:8000/v1".
        model: the model's name there; empty takes the alias.
        dialect: which options beyond OpenAI's it understands; what it does not is left out, with a log line.
        api_key_env: the environment variable that holds its key. `api_key` is the key itself, for tests and toys.
        headers: sent with every request.
        connect_timeout_s, timeout_s: seconds to reach it, and for the whole answer.
        retries: attempts after the first, while no text has come.
        fallback: the local model that answers when the endpoint does not; empty for none.
    """

    url: Annotated[str, Meta(pattern=r"^https?://.+")]
    model: str = ""
    dialect: Dialect = "openai"
    api_key_env: str = ""
    api_key: str = ""
    headers: dict[str, str] = {}
    connect_timeout_s: Seconds = 5.0
    timeout_s: Seconds = 300.0
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    fallback: str = ""

    def key(self) -> str:
        """The API key, or ""."""
        return self.api_key or (os.environ.get(self.api_key_env, "") if self.api_key_env else "")


def remote_alias(model: str, aliases: Mapping[str, str]) -> str | None:
    """The endpoint that `model` means, by itself or through the configuration's aliases; None for a local model."""
    seen: set[str] = set()
    name = _without_local_prefix(model)
    while name in aliases and name not in seen:
        seen.add(name)
        name = _without_local_prefix(aliases[name])
    return name[len(_PREFIX) :].strip() if name.lower().startswith(_PREFIX) else None


def _without_local_prefix(name: str) -> str:
    name = name.strip()
    prefix, separator, rest = name.partition("::")
    return rest.strip() if separator and prefix.strip().lower() == "in-memory" else name
