"""What all messages share: numbers with bounds, and how an object becomes JSON."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# The counts a context can hold; larger numbers are mistakes.
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]

_encoder = msgspec.json.Encoder()


class Wire(Struct, kw_only=True):
    """Base of the objects users receive: the serialisation methods that users of the openai package know."""

    def model_dump(self) -> dict[str, Any]:
        """This object as plain dicts, lists and scalars."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def model_dump_json(self) -> str:
        """This object as a JSON text."""
        return encode(self).decode()

    to_dict = model_dump
    to_json = model_dump_json


def encode(message: Wire) -> bytes:
    """`message` as JSON bytes."""
    return _encoder.encode(message)
