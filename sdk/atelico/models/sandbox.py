"""The Jinja environment that chat templates of model files run in: sandboxed, and bounded in work and output.

A template comes from a downloaded file, so it is treated as hostile: no attribute tricks (jinja2's sandbox), no
endless loops or recursion, no text that grows without end. What templates may use besides plain Jinja follows
Hugging Face's convention: loop controls, `tojson`, `raise_exception`, `strftime_now`, `{% generation %}` blocks.
Source: https://huggingface.co/docs/transformers/chat_templating_writing
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.filters import do_format, do_indent, do_join, do_replace
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_eval_context

MAX_TEMPLATE_CHARS: Final = 1 << 20
MAX_OUTPUT_CHARS: Final = 1 << 25  # twice the largest request
MAX_WIDTH: Final = 1000  # of an indent or a padded field
MAX_STEPS: Final = 2_000_000  # loop iterations and calls of one rendering


class TemplateRefusal(TemplateError):
    """The template itself said no, by `raise_exception`."""


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}` marks text for training; here it is just its content."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it as an instance variable)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The environment of one chat template. The step count belongs to one rendering: one thread at a time."""

    # Arithmetic that can blow up from small operands; interception also keeps it from being computed at compile time.
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constants are computed at run time, inside the limits
            extensions=["jinja2.ext.loopcontrols", _GenerationBlock],
        )
        self._steps = 0
        self.filters["tojson"] = _tojson
        self.filters["_counted"] = self._counted
        self.filters["_joined"] = self.concat
        self.filters |= {"indent": _indent, "format": _format, "replace": _replace, "join": _join}
        for name in ("center", "batch", "slice"):  # fill up to any number
            del self.filters[name]
        del self.globals["lipsum"]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    def render(self, template: Template, variables: dict[str, Any]) -> str:
        """The rendered text.

        Raises:
            TemplateRefusal: the template refused by `raise_exception`.
            Exception: whatever else goes wrong inside a template, SecurityError where it exceeds a limit.
        """
        self._steps = 0
        parts: list[str] = []
        length = 0
        for part in template.generate(variables):
            parts.append(part)
            length += len(part)
            if length > MAX_OUTPUT_CHARS:
                raise SecurityError(f"the prompt exceeds {MAX_OUTPUT_CHARS} characters")
        return "".join(parts)

    def concat(self, values: Iterable[Any]) -> str:
        """The values as one text; macros, set blocks and `~` come through here."""
        text = "".join(map(str, values))
        self._step(len(text) >> 10)
        _check_length(len(text))
        return text

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        self._step(1)
        text = getattr(__obj, "__self__", None)
        if isinstance(text, str):
            _check_text_method(text, __obj.__name__, args)
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Any:
        """jinja2's own guard of str.format, after a look at the widths."""
        wrapped = super().wrap_str_format(value)
        if wrapped is not None:
            _check_format(value.__self__)
        return wrapped

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """`left operator right`, refused where the result would be huge."""
        if operator == "**":
            raise SecurityError("powers are not available in chat templates")
        if operator == "%" and isinstance(left, str):
            _check_format(left)
        if operator == "*":
            _check_length(_size(left) * _size(right))
        if operator == "+":
            _check_length(_length(left) + _length(right))
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Puts every loop and every `~` through the limits."""
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = _filtered(loop.iter, "_counted")
        for parent in [tree, *tree.find_all(nodes.Node)]:
            for name_, value in list(parent.iter_fields()):
                if isinstance(value, list):
                    value[:] = [_bounded_concat(child) for child in value]
                else:
                    setattr(parent, name_, _bounded_concat(value))
        tree.set_environment(self)
        return tree

    def _step(self, n: int) -> None:
        self._steps += n
        if self._steps > MAX_STEPS:
            raise SecurityError(f"it takes more than {MAX_STEPS} steps")

    def _counted(self, values: Iterable[Any]) -> list[Any]:
        items = list(values)
        self._step(len(items))
        return items


def _filtered(node: nodes.Node, name: str) -> nodes.Expr:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _bounded_concat(child: Any) -> Any:
    if isinstance(child, nodes.Concat):
        return _filtered(nodes.List(child.nodes, lineno=child.lineno), "_joined")
    return child


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, list, tuple)) else 0


def _size(value: Any) -> int:
    """How large `value` makes a product: its length, or the number itself."""
    return abs(value) if isinstance(value, int) else max(1, _length(value))


def _check_length(n: int) -> None:
    if n > MAX_OUTPUT_CHARS:
        raise SecurityError(f"a text or list of {n} elements is too long")


def _check_width(value: Any) -> None:
    if isinstance(value, int) and value > MAX_WIDTH:
        raise SecurityError(f"a width of {value} is too large")


def _check_format(pattern: str) -> None:
    """A width in a format is four digits at most, and not taken from an argument."""
    if re.search(r"\d{5}|%[^a-zA-Z]*\*|\{[^{}]*:[^{}]*\{", pattern):
        raise SecurityError("a formatted text is too wide")


def _check_text_method(text: str, method: str, args: tuple[Any, ...]) -> None:
    """The methods of str whose result can be much longer than what they are given."""
    if method in ("ljust", "rjust", "center", "zfill", "expandtabs"):
        _check_width(args[0] if args else 0)
    elif method == "replace" and len(args) >= 2:
        _check_length(len(text) + text.count(args[0]) * len(args[1]))
    elif method == "join" and args and isinstance(args[0], (list, tuple)):
        _check_length(sum(len(text) + _length(item) for item in args[0]))


def _indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
    _check_width(width)
    return do_indent(text, width, first, blank)


def _format(pattern: str, *args: Any, **kwargs: Any) -> str:
    _check_format(pattern)
    return do_format(pattern, *args, **kwargs)


@pass_eval_context
def _replace(context: nodes.EvalContext, text: str, old: str, new: str, count: int | None = None) -> str:
    _check_text_method(str(text), "replace", (old, new))
    return do_replace(context, text, old, new, count)


@pass_eval_context
def _join(context: nodes.EvalContext, values: Iterable[Any], between: str = "", attribute: Any = None) -> str:
    items = list(values)
    _check_text_method(between, "join", (items,))
    joined: str = do_join(context, items, between, attribute)
    return joined


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers writes it: readable text stays as it is, and nothing is escaped for HTML."""
    _check_width(indent)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRefusal(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)
