"""One server with SmolLM2 for all tests of the HTTP interface, and the openai package's client of it."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from atelico.server.options import ServerOptions
from support.chat import Chat
from support.server import Running, running_server


@pytest.fixture(scope="session")
def server(smol: Chat) -> Iterator[Running]:
    """With short limits, so that running into them takes no time."""
    options = ServerOptions(port=0, max_body_bytes=1024 * 1024, body_timeout_s=2.0, grace_s=2.0)
    with running_server(smol.engine, options) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    """Unmodified, but for what a local server needs: its address and any key."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=60) as made:
        yield made
