"""A request as another server understands it: our own options renamed for its dialect, or left out and said so."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from atelico.protocol.request import ChatRequest
from atelico.remote.options import Dialect, RemoteOptions

logger = logging.getLogger(__name__)

# Fields of ours that OpenAI's API has not, and what each dialect calls them.
_EXTRAS = (*("speculative", "atelico", "cache_prompt", "top_k", "min_p", "repetition_penalty", "chat_template_kwargs"),)
_NAMES: dict[Dialect, dict[str, str]] = {
    "openai": {},
    "vllm": {name: name for name in ("top_k", "min_p", "repetition_penalty", "chat_template_kwargs")},
    "llama-server": {
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repeat_penalty",
        "cache_prompt": "cache_prompt",
        "chat_template_kwargs": "chat_template_kwargs",
    },
    "atelico": {name: name for name in _EXTRAS},
}


def upstream_body(request: ChatRequest, alias: str, options: RemoteOptions) -> bytes:
    """The JSON to send."""
    plain: dict[str, Any] = msgspec.to_builtins(request)
    names = _NAMES[options.dialect]
    body: dict[str, Any] = {}
    dropped: list[str] = []
    for name, value in plain.items():
        if value is None:
            continue
        if name not in _EXTRAS:
            body[name] = value
        elif name in names:
            body[names[name]] = value
        else:
            dropped.append(name)
    if dropped:
        logger.info("remote::%s (%s) does not know %s: left out", alias, options.dialect, ", ".join(dropped))
    body["model"] = options.model or alias
    body["messages"] = [_message(message) for message in plain["messages"]]
    body.pop("stream_options", None)
    if request.stream:
        body["stream_options"] = {"include_usage": True}
    return msgspec.json.encode(body)


def _message(message: dict[str, Any]) -> dict[str, Any]:
    # An assistant's null content beside tool calls is part of the shape; other nulls confuse strict servers.
    return {name: value for name, value in message.items() if value is not None or name == "content"}
