"""Two endpoints on loopback: a real server of ours, and one that answers as a test scripts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from atelico.server.options import ServerOptions
from support.chat import Chat
from support.endpoint import Scripted, scripted_endpoint
from support.server import Running, running_server


@pytest.fixture(scope="session")
def cluster(smol: Chat) -> Iterator[Running]:
    """A real endpoint."""
    with running_server(smol.engine, ServerOptions(port=0, grace_s=1)) as running:
        yield running


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """A scripted one; a test sets its `steps`."""
    with scripted_endpoint() as script:
        yield script
