"""The OpenAPI document is true: generated requests never meet a 5xx, and every response has the shape it promises."""

from __future__ import annotations

import os
from typing import Any

import hypothesis
import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

from atelico.server.openapi import document
from support.chat import SMOLLM2
from support.server import Running

schema = schemathesis.openapi.from_dict(document())

# The explicit examples, one per rule of the schema, are hundreds of requests: run them with ATELICO_ALL_EXAMPLES=1.
PHASES = tuple(hypothesis.Phase) if os.environ.get("ATELICO_ALL_EXAMPLES") else (hypothesis.Phase.generate,)


def keep_short(body: dict[str, Any]) -> None:
    """Valid values become ones that take little time; wrong ones stay wrong."""
    if body.get("model") and isinstance(body["model"], str):
        body["model"] = SMOLLM2
    if isinstance(prompts := body.get("prompt"), list) and len(prompts) <= 128:
        body["prompt"] = prompts[:2]
    for name, most, short in (("max_tokens", 2**31, 1), ("max_completion_tokens", 2**31, 1), ("n", 129, 1)):
        value = body.get(name)
        if value is None or (type(value) is int and 1 <= value < most):
            body[name] = short


def test_the_document_names_every_route() -> None:
    from atelico.server.app import ROUTES

    served = {(method.lower(), path.replace("{name:path}", "{model}")) for method, path, _ in ROUTES}
    described = {(method, path) for path, item in document()["paths"].items() for method in item}
    assert served == described


@schema.parametrize()
@hypothesis.settings(
    max_examples=20,
    phases=PHASES,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_generated_requests_get_what_the_document_says(server: Running, case: schemathesis.Case) -> None:
    if isinstance(case.body, dict):
        keep_short(case.body)
    # Not "valid data is accepted": some rules hold across fields or depend on the model, which no schema says.
    case.call_and_validate(base_url=server.url, excluded_checks=[positive_data_acceptance])
