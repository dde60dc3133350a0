"""From a request's `tools` and `tool_choice` to a plan: which tools may be called, whether one must be, how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atelico.protocol.request import AllowedToolsChoice, ChatRequest, NamedToolChoice, Tool

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class ToolPlan:
    """The tools of one request.

    Attributes:
        shown: every tool, for the prompt.
        callable: the indices of those that may be called.
        required: whether the answer must be a call.
        named: whether the request named the one function to call.
        parallel: whether there may be more than one call.
    """

    shown: tuple[Tool, ...]
    callable: tuple[int, ...]
    required: bool
    named: bool
    parallel: bool


def plan_tools(request: ChatRequest) -> ToolPlan | None:
    """What `request` says about tools; None where none may be called."""
    choice = request.tool_choice
    if not request.tools or choice == "none":
        return None
    allowed: set[str] | None = None
    required = choice == "required"
    named = False
    if isinstance(choice, NamedToolChoice):
        allowed, required, named = {choice.function.name}, True, True
    elif isinstance(choice, AllowedToolsChoice):
        allowed = {tool.function.name for tool in choice.allowed_tools.tools}
        required = choice.allowed_tools.mode == "required"
    indices = (i for i, tool in enumerate(request.tools) if allowed is None or tool.function.name in allowed)
    parallel = request.parallel_tool_calls is not False and not named
    return ToolPlan(tuple(request.tools), tuple(indices), required, named, parallel)


def arguments_schema(tool: Tool) -> dict[str, Any]:
    """The schema of a tool's arguments: always of an object, of an empty one where the tool says nothing."""
    given = tool.function.parameters
    if not given:
        return _NO_ARGUMENTS
    return given if "type" in given else {"type": "object", **given}
