"""Which values a field of a struct may have, for the errors that name it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect


def allowed_values(kind: type[Any], path: str) -> list[str]:
    """The texts that the field at `path`, such as "messages[0].role", may be; empty where they cannot be counted."""
    types = [inspect.type_info(kind)]
    *steps, last = re.findall(r"[^.\[\]]+|\[[^\]]*\]", path) or [""]
    for step in steps:
        types = [inner for outer in types for inner in _inside(outer, step)]
    tags = [t.tag for t in types for t in _flat(t) if isinstance(t, inspect.StructType) and t.tag_field == last]
    found = [t for outer in types for inner in _inside(outer, last) for t in _flat(inner)]
    literals = [value for t in found if isinstance(t, inspect.LiteralType) for value in t.values]
    return [value for value in [*tags, *literals] if isinstance(value, str)]


def _flat(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The members of a union, or `kind` itself."""
    if isinstance(kind, inspect.UnionType):
        yield from kind.types
    else:
        yield kind


def _inside(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """What a name or an index leads to."""
    for member in _flat(kind):
        if isinstance(member, inspect.StructType):
            yield from (field.type for field in member.fields if field.encode_name == step)
        elif isinstance(member, inspect.ListType):
            yield member.item_type
        elif isinstance(member, inspect.DictType):
            yield member.value_type
