"""What a JSON schema is made of: walking it, naming places in it, bounding it, and dropping what says nothing.

Nothing here asks the grammar engine; `weaken.py` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from atelico.errors import SchemaError

Path = tuple[str | int, ...]
Node = dict[str, Any]

# The engine's JSON parser stops at 128 levels, some of which the grammar around the schema takes.
MAX_DEPTH = 120
MAX_NODES = 300_000
# Of one object. The engine's work grows with the square: 800 compile in 0.1 s, 2,000 in 0.5 s, 5,000 in 2.6 s.
MAX_OPTIONAL = 1_000

# Keywords whose value is a schema, a list of schemas, or an object of schemas (all drafts).
_ONE = ("items", "additionalItems", "additionalProperties")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")

_SIZES = frozenset(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"))

# Keywords of a draft that restrict an instance and that the engine cannot enforce: it refuses them where they count.
UNSUPPORTED = frozenset(
    (
        "not",
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "uniqueItems",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "$recursiveAnchor",
    )
)
# Draft 3 keywords: restrictions that the engine takes for unknown words and would pass over without a sound.
UNKNOWN_TO_ENGINE = frozenset(("extends", "disallow", "divisibleBy"))


class Place(NamedTuple):
    """A schema inside a schema. `holder[key]` is the schema, so that it can be replaced; the root has no holder."""

    path: Path
    node: Any
    holder: Any
    key: str | int | None


def path_text(path: Path) -> str:
    """`path` as users read it: properties.email.anyOf[0]; names with other characters are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "a").replace("-", "a").replace("$", "a").isalnum() and len(part) <= 80:
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part[:80])}]"
    return text or "the schema"


def places(root: Any) -> Iterator[Place]:
    """Every schema in `root`, the outer ones first, the root itself included. Subschemas of keywords that cannot be
    enforced are not visited: they fall together with their keyword."""
    todo = [Place((), root, None, None)]
    while todo:
        place = todo.pop()
        yield place
        todo.extend(reversed(list(children(place))))


def children(place: Place) -> Iterator[Place]:
    """The schemas directly inside the one at `place`."""
    node = place.node
    if not isinstance(node, dict):
        return
    for keyword, value in node.items():
        path = (*place.path, keyword)
        if keyword in _NAMED and isinstance(value, dict):
            for name, schema in value.items():
                yield Place((*path, name), schema, value, name)
        elif keyword in _MANY and isinstance(value, list):
            for i, schema in enumerate(value):
                yield Place((*path, i), schema, value, i)
        elif keyword in _ONE and isinstance(value, (dict, bool)):
            yield Place(path, value, node, keyword)


def copy_bounded(schema: Node) -> Node:
    """A private copy of `schema`, after a look at its size and depth that does not itself recurse.

    Raises:
        SchemaError: nested too deeply, too large, or not JSON.
    """
    n_nodes = 0
    level: list[Any] = [schema]
    depth = 0
    while level:
        depth += 1
        n_nodes += len(level)
        if depth > MAX_DEPTH:
            raise SchemaError(
                f"The schema is nested more than {MAX_DEPTH} levels deep.", hint="Move inner schemas to $defs."
            )
        if n_nodes > MAX_NODES:
            raise SchemaError(f"The schema has more than {MAX_NODES} values.", hint="Use a smaller schema.")
        level = [child for value in level if isinstance(value, (dict, list)) for child in _values(value)]
    try:
        copy: Node = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SchemaError(f"The schema is not JSON: {error}.") from None
    return copy


def normalise(root: Node) -> None:
    """Drops from `root`, in place, what must not reach the engine and what changes nothing. Key order stays.

    `x-guidance` would let a request override our policy. The rest are keywords that the engine refuses although, with
    this value or beside these others, they allow everything.

    Raises:
        SchemaError: an object with too many optional properties.
    """
    for place in places(root):
        node = place.node
        if not isinstance(node, dict):
            continue
        node.pop("x-guidance", None)
        n_optional = _n_optional(node)
        if n_optional > MAX_OPTIONAL:
            raise SchemaError(
                f"{path_text((*place.path, 'properties'))} has {n_optional} optional properties; at most {MAX_OPTIONAL}"
                " are supported in one object.",
                hint="Require some of them, or split the object.",
            )
        for keyword in _SIZES & node.keys():
            if isinstance(node[keyword], float) and node[keyword].is_integer():
                node[keyword] = int(node[keyword])  # JSON Schema counts 2.0 as an integer, the engine does not
        for keyword in [keyword for keyword in node if _says_nothing(keyword, node)]:
            del node[keyword]


def _values(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _says_nothing(keyword: str, node: Node) -> bool:
    value = node[keyword]
    match keyword:
        case "uniqueItems":
            return value is False or _count(node.get("maxItems"), 2) <= 1
        case "minProperties":
            required = node.get("required")
            names = {str(name) for name in required} if isinstance(required, list) else set()
            return isinstance(value, int) and value <= len(names)
        case "if":
            return "then" not in node and "else" not in node
        case "then" | "else":
            return "if" not in node or _allows_everything(value)
        case "minContains" | "maxContains":
            return "contains" not in node
        case "contains":
            return bool(node.get("minContains") == 0) and "maxContains" not in node
        case "not":
            return value is False
        case "propertyNames" | "unevaluatedItems":
            return _allows_everything(value)
        case "unevaluatedProperties":
            # additionalProperties leaves no property unevaluated.
            return _allows_everything(value) or "additionalProperties" in node
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return bool(value == {})
    return False


def _n_optional(node: Node) -> int:
    properties, required = node.get("properties"), node.get("required")
    n_properties = len(properties) if isinstance(properties, dict) else 0
    return n_properties - (len(required) if isinstance(required, list) else 0)


def _allows_everything(schema: object) -> bool:
    return schema is True or schema == {}


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
