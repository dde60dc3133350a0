"""JSON that is always whole: real schemas under small token budgets, each answer parsed and validated.

Needs ../shared/data beside the repository (the schemas are not part of it). Every answer must be a document that
satisfies its schema, or the error that names the tokens it needs. Run with: python -m benchmarks.whole_json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "500")

import jsonschema

from atelico import Engine, EngineConfig
from atelico.errors import AtelicoError, SchemaError
from benchmarks.report import table
from benchmarks.schemas import Case, sample_cases

MODEL = "SmolLM2-135M-Instruct"
BUDGETS = (32, 64, 128)
N_SCHEMAS = 200
TOO_SMALL = "max_tokens_too_small"


@dataclass
class Outcome:
    """All answers under one budget.

    Attributes:
        whole: parsed and valid; `finished` of them ended by themselves, `closed` for want of tokens.
        weakened: of the whole ones, those whose schema is enforced in part only, as the response says: they parse.
        too_small: refused, with the tokens that are needed.
        broken: neither; this must stay empty.
    """

    max_tokens: int
    whole: int = 0
    finished: int = 0
    closed: int = 0
    weakened: int = 0
    too_small: int = 0
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


def enforceable(engine: Engine, cases: Sequence[Case], n_schemas: int) -> list[Case]:
    """The first `n_schemas` of `cases`, spread over all, whose schemas can be used at all."""
    found: list[Case] = []
    step = max(1, len(cases) // n_schemas)
    order = [case for first in range(step) for case in cases[first::step]]
    for case in order:
        if len(found) == n_schemas:
            break
        try:
            ask(engine, case, 1)
        except SchemaError:
            continue
        except AtelicoError:
            pass
        found.append(case)
    return found


def ask(engine: Engine, case: Case, max_tokens: int, **fields: Any) -> tuple[str, str, bool, bool]:
    """Text, finish reason, whether it was closed early, and whether the schema is enforced in part only.

    Raises:
        AtelicoError: the request was refused.
    """
    answer = engine.chat_completion(
        {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"Answer in JSON: an example of {case.name}."}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": case.schema}},
            "max_tokens": max_tokens,
            "temperature": 0.8,
            "seed": 1,
            **fields,
        },
        timeout=120,
    )
    choice, facts = answer.choices[0], answer.atelico
    return choice.message.content or "", choice.finish_reason, facts.closed_early, bool(facts.warnings)


def judge(engine: Engine, case: Case, outcome: Outcome, **fields: Any) -> None:
    """Ask for one document and count it in `outcome`."""
    try:
        text, reason, closed, weakened = ask(engine, case, outcome.max_tokens, **fields)
        document = json.loads(text)
        if not weakened:
            jsonschema.validate(document, case.schema)
    except AtelicoError as error:
        if error.code == TOO_SMALL:
            outcome.too_small += 1
        else:
            outcome.broken.append(f"{case.name}: {error}")
        return
    except (ValueError, jsonschema.ValidationError) as error:
        outcome.broken.append(f"{case.name}: {str(error)[:200]}")
        return
    outcome.whole += 1
    outcome.closed += closed
    outcome.finished += reason == "stop"
    outcome.weakened += weakened


def run(n_schemas: int = N_SCHEMAS, budgets: Sequence[int] = BUDGETS) -> list[Outcome]:
    """One outcome per budget."""
    outcomes = [Outcome(budget) for budget in budgets]
    with Engine(EngineConfig(n_ctx=512, n_lanes=1)) as engine:
        cases = enforceable(engine, sample_cases(), n_schemas)
        for outcome in outcomes:
            started = time.perf_counter()
            for case in cases:
                judge(engine, case, outcome)
            outcome.seconds = round(time.perf_counter() - started, 1)
    return outcomes


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Run and print the table. Exits with 1 where an answer is neither whole nor the error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole_json", description=__doc__)
    parser.add_argument("--schemas", type=int, default=N_SCHEMAS, help="so many instead of all")
    options = parser.parse_args([] if arguments is None else arguments)
    outcomes = run(options.schemas)
    columns = ("max_tokens", "whole", "ended by themselves", "closed early", "refused: too small", "broken", "weakened")
    table(
        f"Structured answers of {MODEL} under small budgets, {options.schemas} schemas",
        columns,
        (
            [str(n) for n in (o.max_tokens, o.whole, o.finished, o.closed, o.too_small, len(o.broken), o.weakened)]
            for o in outcomes
        ),
    )
    broken = [problem for outcome in outcomes for problem in outcome.broken]
    for problem in broken:
        print("broken:", problem)
    if broken:
        raise SystemExit(1)
    return [asdict(outcome) for outcome in outcomes]


if __name__ == "__main__":
    main(sys.argv[1:])
