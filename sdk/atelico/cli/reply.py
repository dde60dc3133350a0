"""One answer on the terminal: its text streamed to stdout, thoughts and counts to stderr."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from atelico.cli.ask import AskOptions
from atelico.cli.interrupt import cancelled_by_ctrl_c
from atelico.cli.report import note
from atelico.engine import Engine
from atelico.protocol.read import decode_request
from atelico.protocol.request import ChatRequest
from atelico.protocol.response import ChatCompletion

# A model's text must not move the cursor or change colours; line breaks and tabs stay.
_CONTROLS = {code: None for code in (*range(32), 127, *range(128, 160)) if code not in (9, 10)}


@dataclass(frozen=True)
class Reply:
    """A finished answer. `interrupted`: Ctrl-C cut it short."""

    completion: ChatCompletion
    interrupted: bool

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.completion.choices[0].message.content or ""


def stream_reply(engine: Engine, request: dict[str, object], options: AskOptions) -> Reply:
    """Ask, and print the answer while it is made.

    Raises:
        AtelicoError: the request is wrong or failed.
    """
    checked: ChatRequest = decode_request(request)
    job = engine.submit(checked)
    with cancelled_by_ctrl_c(job) as interrupt:
        thinking = False
        for chunk in job.chunks():
            for choice in chunk.choices:
                if choice.delta.reasoning_content:
                    thinking = True
                    _show_thought(choice.delta.reasoning_content)
                if choice.delta.content:
                    if thinking:
                        thinking = False
                        _show_thought("\n")
                    _show(choice.delta.content)
        completion = job.result()
    reply = Reply(completion, interrupt.pressed)
    if not reply.text.endswith("\n"):
        _show("\n")
    _show_remarks(reply, options)
    return reply


def _show(text: str) -> None:
    # A pipe gets the text as it is.
    sys.stdout.write(text.translate(_CONTROLS) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def _show_thought(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(text.translate(_CONTROLS), style="dim"), end="")


def _show_remarks(reply: Reply, options: AskOptions) -> None:
    info = reply.completion.atelico
    for warning in info.warnings:
        note(f"warning: {warning}", style="yellow")
    if reply.interrupted:
        note("cancelled")
    elif options.speculates and not info.speculation.active:
        note(f"decoded plainly: {info.speculation.reason}")
    if options.stats:
        note(stats_line(reply.completion))


def stats_line(completion: ChatCompletion) -> str:
    """Counts, speed and what speculation did, in one line."""
    usage, info = completion.usage, completion.atelico
    speed, drafts = info.timings.tokens_per_second, info.speculation
    ended = completion.choices[0].finish_reason
    parts = [
        f"{usage.prompt_tokens} prompt and {usage.completion_tokens} answer tokens ({ended})",
        f"first token after {info.timings.first_token_ms:.0f} ms",
        f"{speed:.1f} tokens/s" if speed is not None else "",
        f"{drafts.proposer}: {drafts.accepted} of {drafts.proposed} draft tokens accepted in {drafts.rounds} rounds"
        if drafts.active
        else f"no speculation ({drafts.reason})",
        info.device,
    ]
    return ", ".join(part for part in parts if part)
