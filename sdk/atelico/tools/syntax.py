"""CallSyntax: how a family of models writes tool calls, as the texts around names and arguments."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# Rules in llguidance's Lark dialect for arguments that are not JSON; the first one has the name asked for.
ArgumentsGrammar = Callable[[str, dict[str, Any], Callable[[str], str]], list[str]]
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class CallSyntax:
    """Calls are written as: opening, then each call as prefix NAME middle ARGUMENTS suffix, parted by separator, then
    closing.

    Attributes:
        name: what documentation and logs call it.
        trigger: the beginning of `opening` + `prefix` by which a call in the midst of text is told from the text;
            "" where calls stand alone, at the very beginning of the answer.
        markers: texts in it that are control tokens in some vocabularies.
        id_length: characters of a call's id; some templates insist on 9.
        arguments_grammar: rules for arguments in a notation of its own; None for JSON.
        read_arguments: from that notation to JSON; None for JSON.
    """

    name: str
    prefix: str
    middle: str
    suffix: str
    separator: str
    opening: str = ""
    closing: str = ""
    trigger: str = ""
    markers: tuple[str, ...] = ()
    id_length: int = 24
    arguments_grammar: ArgumentsGrammar | None = None
    read_arguments: Callable[[str], str] | None = None

    def make_id(self) -> str:
        """A new call's id."""
        random = "".join(secrets.choice(_ALPHABET) for _ in range(self.id_length))
        return random if self.id_length < 24 else f"call_{random}"

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls, as (name, arguments), as the model would write them."""
        written = (f"{self.prefix}{name}{self.middle}{arguments}{self.suffix}" for name, arguments in calls)
        return self.opening + self.separator.join(written) + self.closing
