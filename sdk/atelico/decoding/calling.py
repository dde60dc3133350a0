"""Calling: what tool calling adds to one request on one model: its prompt, its grammar, its reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atelico.decoding.loaded import LoadedModel
from atelico.errors import SchemaError
from atelico.grammar.compiler import CompiledGrammar, Thinking, json_rule
from atelico.protocol.request import ChatRequest, JsonObjectFormat, JsonSchemaFormat, Message
from atelico.tools import formats
from atelico.tools.plan import ToolPlan, arguments_schema
from atelico.tools.prompt import explained, tool_description, written_out
from atelico.tools.reader import CallReader
from atelico.tools.rules import call_rules, literal_for
from atelico.tools.syntax import CallSyntax


@dataclass(frozen=True)
class Calling:
    """The tools of one request, ready for its model.

    Attributes:
        messages: what to render.
        descriptions: the tools for the template; None where the messages explain them instead.
    """

    plan: ToolPlan
    syntax: CallSyntax
    messages: Sequence[Message]
    descriptions: list[dict[str, object]] | None

    @staticmethod
    def choose(plan: ToolPlan, request: ChatRequest, loaded: LoadedModel) -> Calling:
        """The model's own way where its template has one, ours where not."""
        structured = isinstance(request.response_format, (JsonObjectFormat, JsonSchemaFormat))
        # Space after a thought would hide a call that must come first.
        template = loaded.template.text
        syntax = formats.syntax_of(template, tagged=structured or loaded.thinking is not None)
        if formats.takes_tools(template):
            return Calling(plan, syntax, request.messages, [tool_description(tool) for tool in plan.shown])
        return Calling(plan, syntax, explained(request.messages, plan, syntax), None)

    def compile(
        self, request: ChatRequest, loaded: LoadedModel, thinking: Thinking | None
    ) -> tuple[CompiledGrammar, tuple[str, ...]]:
        """The grammar of the answer, and what of the schemas it does not enforce.

        Raises:
            SchemaError: the schema of a tool, or of the response_format, cannot be used.
        """
        tools: list[tuple[str, dict[str, Any]]] = []
        warnings: list[str] = []
        for i in self.plan.callable:
            function = self.plan.shown[i].function
            try:
                enforced = loaded.grammars.enforce(
                    arguments_schema(self.plan.shown[i]),
                    f"The schema of the function {function.name!r}",
                    f"tools[{i}].function.parameters",
                    strict=bool(function.strict),
                )
            except SchemaError as error:
                error.code = "invalid_function_parameters"
                raise
            tools.append((function.name, enforced.schema))
            warnings += [f"tools[{i}]: {warning}" for warning in enforced.warnings]
        document = None
        if request.response_format is not None:
            document, more = loaded.grammars.document(request.response_format)
            warnings += more
        rules = call_rules(
            self.syntax,
            tools,
            literal_for(self.syntax.markers, loaded.grammars.symbol),
            json_rule,
            required=self.plan.required,
            parallel=self.plan.parallel,
            document=document,
        )
        lead = self.plan.required or document is not None
        return loaded.grammars.compile_body(rules, thinking=thinking, lead=lead), tuple(warnings)

    def reader(self) -> CallReader:
        """A reader for one answer."""
        return CallReader(self.syntax, [self.plan.shown[i].function.name for i in self.plan.callable])

    def marker_tokens(self, loaded: LoadedModel) -> dict[int, bytes]:
        """The control tokens that calls are made of, whose text the vocabulary would not show."""
        symbols = {marker: loaded.grammars.symbol(marker) for marker in self.syntax.markers}
        return {int(symbol[2:-2]): marker.encode() for marker, symbol in symbols.items() if symbol.startswith("<[")}


def messages_for(request: ChatRequest, loaded: LoadedModel) -> Sequence[Message]:
    """The messages of a request that may call nothing now; a template that knows no calls gets earlier ones as text."""
    template = loaded.template.text
    if formats.takes_tools(template):
        return request.messages
    return written_out(request.messages, formats.syntax_of(template, tagged=False))


def thinking_tags(loaded: LoadedModel, *, inside: bool) -> Thinking | None:
    """The tags of a model that thinks; `inside`: whether the prompt ends in a thought."""
    return (loaded.thinking.open, loaded.thinking.close, inside) if loaded.thinking is not None else None
