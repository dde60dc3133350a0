"""Tools in the words of messages, for models whose template does not show them: our own explanation of plain JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from atelico.protocol.request import Message, Tool
from atelico.tools.plan import ToolPlan, arguments_schema
from atelico.tools.syntax import CallSyntax


def explained(messages: Sequence[Message], plan: ToolPlan, syntax: CallSyntax) -> list[Message]:
    """`messages` with the tools explained in front, earlier calls and their results as text."""
    told = written_out(messages, syntax)
    explanation = _explanation(plan, syntax)
    if told and told[0].role in ("system", "developer"):
        return [Message(role=told[0].role, content=f"{told[0].text()}\n\n{explanation}"), *told[1:]]
    return [Message(role="system", content=explanation), *told]


def written_out(messages: Sequence[Message], syntax: CallSyntax) -> list[Message]:
    """`messages` with earlier calls as text of the assistant's and their results as user messages."""
    return [_as_text(message, syntax) for message in messages]


def tool_description(tool: Tool) -> dict[str, object]:
    """A tool as chat templates and prompts expect it."""
    function: dict[str, object] = {"name": tool.function.name}
    if tool.function.description:
        function["description"] = tool.function.description
    function["parameters"] = arguments_schema(tool)
    return {"type": "function", "function": function}


def _explanation(plan: ToolPlan, syntax: CallSyntax) -> str:
    tools = "\n".join(json.dumps(tool_description(plan.shown[i])["function"]) for i in plan.callable)
    example = syntax.write([("NAME", "{ARGUMENTS}")])
    several = " Several calls are written one after the other." if plan.parallel else ""
    when = "Answer with a call" if plan.required else "Where a function helps to answer, call it"
    return (
        f"You can call these functions, each described by a JSON object:\n{tools}\n\n"
        f"{when}, written exactly so and without any other text:\n{example}\n{several}".rstrip()
    )


def _as_text(message: Message, syntax: CallSyntax) -> Message:
    if message.role == "tool":
        named = f" of {message.name}" if message.name else ""
        return Message(role="user", content=f"Result{named}: {message.text()}")
    if message.tool_calls:
        calls = syntax.write([(call.function.name, call.function.arguments) for call in message.tool_calls])
        return Message(role="assistant", content="\n".join(filter(None, [message.text(), calls])))
    return message
