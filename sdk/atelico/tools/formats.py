"""Which call syntax a model uses, from its chat template."""

from __future__ import annotations

import re

from atelico.tools import function_gemma, hermes, llama3, mistral
from atelico.tools.function_gemma import FUNCTION_GEMMA
from atelico.tools.hermes import HERMES
from atelico.tools.llama3 import LLAMA3, LLAMA3_TAGGED
from atelico.tools.mistral import MISTRAL, MISTRAL_NAMED
from atelico.tools.plain_json import PLAIN_JSON
from atelico.tools.syntax import CallSyntax

# The more special ones first.
_KNOWN = (
    (mistral.matches_named, MISTRAL_NAMED),
    (mistral.matches, MISTRAL),
    (function_gemma.matches, FUNCTION_GEMMA),
    (hermes.matches, HERMES),
    (llama3.matches, LLAMA3),
)


def takes_tools(template: str) -> bool:
    """Whether a chat template shows tools to the model by itself, in a syntax we know."""
    return re.search(r"\btools\b", template) is not None and any(matches(template) for matches, _ in _KNOWN)


def syntax_of(template: str, *, tagged: bool) -> CallSyntax:
    """How the model of this template writes calls.

    Args:
        tagged: whether a call must be told from other JSON, or may come after something: it then has a tag.
    """
    found = PLAIN_JSON
    if takes_tools(template):
        found = next(syntax for matches, syntax in _KNOWN if matches(template))
    if tagged and not found.trigger:
        return LLAMA3_TAGGED if found is LLAMA3 else HERMES
    return found
