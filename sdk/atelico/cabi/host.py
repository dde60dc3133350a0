"""The main loop of the interpreter inside libatelico: every mail to the engine it is meant for."""

from __future__ import annotations

import logging
from typing import Any

from atelico.cabi.config import decode_config
from atelico.cabi.failure import failure_event
from atelico.cabi.hosted import HostedEngine
from atelico.cabi.mailbox import CMailbox, Kind, Mail, Mailbox
from atelico.cabi.quiet import keep_quiet
from atelico.errors import AtelicoError, InternalError

logger = logging.getLogger(__name__)


def run(ffi: Any, lib: Any) -> None:
    """Serve until the process ends. Called by the library, on its own thread, with its cffi module.

    Returns only for a defect, which is then in the log.
    """
    try:
        if lib.owns_interpreter():
            keep_quiet()
        mailbox = CMailbox(ffi, lib)
        mailbox.guard_exit()
        serve(mailbox)
    except BaseException:  # nothing above this could handle it
        logger.exception("the host ended for a defect")


def serve(mailbox: Mailbox) -> None:
    """Take mail for ever."""
    engines: dict[int, HostedEngine] = {}
    while True:
        mail = mailbox.take()
        if mail.kind == Kind.CREATE:
            _create(mail, engines, mailbox)
        elif mail.kind == Kind.DESTROY:
            engine = engines.pop(mail.engine, None)
            if engine is None:
                mailbox.closed(mail.engine)  # it could not be made
            else:
                engine.destroy()
        elif mail.engine in engines:
            engines[mail.engine].accept(mail)


def _create(mail: Mail, engines: dict[int, HostedEngine], mailbox: Mailbox) -> None:
    try:
        engines[mail.engine] = HostedEngine(mail.engine, decode_config(mail.text), mailbox)
    except AtelicoError as error:
        _fail(mail, error, mailbox)
    except Exception as error:
        logger.exception("a defect kept an engine from being made")
        _fail(mail, InternalError(f"The engine could not be made for a defect of atelico: {error}."), mailbox)


def _fail(mail: Mail, error: AtelicoError, mailbox: Mailbox) -> None:
    mailbox.fail_engine(mail.engine, error.c_result, failure_event(error), str(error))
