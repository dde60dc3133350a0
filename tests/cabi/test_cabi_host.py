"""The Python side of the library, with a mailbox of Python in place of C's."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from atelico.cabi.config import decode_config
from atelico.cabi.failure import failure_event
from atelico.cabi.host import serve
from atelico.cabi.mailbox import Kind, Mail
from atelico.errors import ConfigError, ContextOverflowError
from support.chat import SMOLLM2

ENGINE = 7


class EndOfMailError(Exception):
    """Ends the host, which otherwise serves for ever."""


def _serve(mailbox: RecordingMailbox) -> None:
    with contextlib.suppress(EndOfMailError):
        serve(mailbox)


@dataclass
class RecordingMailbox:
    """A Mailbox that keeps what the host says. `wanted`: whether pushed events are still wanted."""

    mails: queue.SimpleQueue[Mail | None] = field(default_factory=queue.SimpleQueue)
    said: queue.SimpleQueue[tuple[Any, ...]] = field(default_factory=queue.SimpleQueue)
    wanted: bool = True

    def take(self) -> Mail:
        mail = self.mails.get()
        if mail is None:
            raise EndOfMailError
        return mail

    def push(self, engine: int, job: int, event: bytes) -> bool:
        self.said.put(("push", job, json.loads(event)))
        return self.wanted

    def end(self, engine: int, job: int, result: int = 0, event: bytes = b"", message: str = "") -> None:
        self.said.put(("end", job, result, json.loads(event or b"null"), message))

    def set_model(self, engine: int, name: str, ticket: int, state: int, progress: float, message: str) -> None:
        self.said.put(("model", name, ticket, state, message))

    def fail_engine(self, engine: int, result: int, event: bytes, message: str) -> None:
        self.said.put(("failed", engine, result, json.loads(event), message))

    def closed(self, engine: int) -> None:
        self.said.put(("closed", engine))

    def guard_exit(self) -> None:
        pass

    def send(self, kind: Kind, text: str = "", job: int = 0, ticket: int = 0) -> None:
        self.mails.put(Mail(kind, ENGINE, job, ticket, text.encode()))

    def wait_for(self, what: str) -> tuple[Any, ...]:
        while True:
            said = self.said.get(timeout=60)
            if said[0] == what:
                return said


@pytest.fixture
def mailbox() -> Iterator[RecordingMailbox]:
    mailbox = RecordingMailbox()
    thread = threading.Thread(target=_serve, args=(mailbox,), daemon=True)
    thread.start()
    yield mailbox
    mailbox.send(Kind.DESTROY)
    mailbox.wait_for("closed")
    mailbox.mails.put(None)
    thread.join(10)


def _request(model: str = SMOLLM2, **fields: object) -> str:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, **fields})


def test_a_wrong_configuration_fails_the_engine(mailbox: RecordingMailbox) -> None:
    mailbox.send(Kind.CREATE, '{"n_ctx": -1}')
    _, engine, result, event, message = mailbox.wait_for("failed")
    assert (engine, result) == (ENGINE, -3)
    assert event["atelico"]["result"] == -3
    assert "n_ctx" in message


def test_a_job_cancelled_before_it_is_seen_loads_no_model(mailbox: RecordingMailbox) -> None:
    mailbox.send(Kind.CREATE)
    # Mostly both mails are there before the engine looks at the first; the answer is the same if not.
    mailbox.send(Kind.STREAM, _request(max_tokens=500), job=1)
    mailbox.send(Kind.CANCEL, job=1)
    pushed = mailbox.wait_for("push")
    while pushed[2]["choices"][0]["finish_reason"] is None:
        pushed = mailbox.wait_for("push")
    assert pushed[2]["choices"][0]["finish_reason"] == "cancelled"
    assert mailbox.wait_for("end")[:3] == ("end", 1, 0)


def test_a_stream_ends_once_after_its_chunks(mailbox: RecordingMailbox) -> None:
    mailbox.send(Kind.CREATE, '{"n_ctx": 256, "n_threads": 1}')
    mailbox.send(Kind.STREAM, _request(), job=1)
    events = []
    while True:
        events.append(mailbox.said.get(timeout=60))
        if events[-1][0] == "end":
            break
    assert [event[0] for event in events[:-1]] == ["push"] * (len(events) - 1)
    assert events[-2][2]["atelico"]["device"]


def test_a_job_nobody_wants_is_cancelled(mailbox: RecordingMailbox) -> None:
    mailbox.wanted = False
    mailbox.send(Kind.CREATE, '{"n_ctx": 1024, "n_threads": 1}')
    mailbox.send(Kind.STREAM, _request(max_tokens=900), job=1)
    chunks = 0
    while mailbox.said.get(timeout=60)[0] == "push":
        chunks += 1
    assert chunks < 200


def test_a_models_state_carries_the_ticket_of_its_question(mailbox: RecordingMailbox) -> None:
    mailbox.send(Kind.CREATE)
    mailbox.send(Kind.WATCH, "no-such-model")
    assert mailbox.wait_for("model")[1:4] == ("no-such-model", 0, -4)
    mailbox.send(Kind.LOAD, "no-such-model", ticket=3)
    assert mailbox.wait_for("model")[1:4] == ("no-such-model", 3, -4)


def test_an_error_event_has_openais_body_and_the_result() -> None:
    event = json.loads(failure_event(ContextOverflowError("Too long.", hint="Shorten it.", param="messages")))
    assert event == {
        "error": {
            "message": "Too long. Shorten it.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
        "atelico": {"result": -9},
    }


@pytest.mark.parametrize("text", [b"[", b"[]", b'{"n_ctx": "x"}', b'{"colour": 1}', b"[" * 10_000])
def test_a_configuration_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_config(text)
    assert caught.value.c_result == -3
    assert "Known fields" in caught.value.hint


def test_no_configuration_means_the_defaults() -> None:
    assert decode_config(b"") == decode_config(b"{}") == decode_config(b" \n")
