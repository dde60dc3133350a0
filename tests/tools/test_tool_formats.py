"""Every call syntax: what it writes its reader reads back, however the text is cut, and its grammar accepts."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atelico.grammar.compiler import GrammarCompiler, json_rule
from atelico.runtime.vocabulary import Vocabulary
from atelico.tools import formats, function_gemma
from atelico.tools.function_gemma import FUNCTION_GEMMA, read_arguments, write_value
from atelico.tools.hermes import HERMES
from atelico.tools.llama3 import LLAMA3, LLAMA3_TAGGED
from atelico.tools.mistral import MISTRAL, MISTRAL_NAMED
from atelico.tools.plain_json import PLAIN_JSON
from atelico.tools.reader import CallReader, joined
from atelico.tools.rules import call_rules, literal_for
from atelico.tools.syntax import CallSyntax

JSON_SYNTAXES = (HERMES, LLAMA3, LLAMA3_TAGGED, MISTRAL, MISTRAL_NAMED, PLAIN_JSON)
SYNTAXES = (*JSON_SYNTAXES, FUNCTION_GEMMA)
# A stand-in for markers that are control tokens, which SmolLM2's vocabulary has under another name.
SPECIAL = dataclasses.replace(
    HERMES, name="special", prefix='<file_sep>{"name": "', suffix="}", trigger="<file_sep>", markers=("<file_sep>",)
)
NAMES = ("get", "get_weather", "open_door")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}
ARGUMENTS = [{"city": 'O"slo}', "days": 3}, {"city": "\u00c5 \\", "tags": ["x", "]"]}, {"city": "", "unit": "C"}]


def written(syntax: CallSyntax, calls: list[tuple[str, dict[str, Any]]]) -> str:
    """The calls as a model of this syntax writes them."""
    write = json.dumps if syntax.read_arguments is None else write_value
    return syntax.write([(name, write(arguments)) for name, arguments in calls])


def read(syntax: CallSyntax, pieces: list[str]) -> tuple[str, list[tuple[str, Any]], list[Any]]:
    """(text, calls, deltas) of an answer that arrives in pieces."""
    reader = CallReader(syntax, NAMES)
    said, deltas = "", []
    for piece in pieces:
        text, new = reader.feed(piece)
        said += text
        deltas += new
    text, new = reader.finish()
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in reader.calls]
    return said + text, calls, deltas + new


def cut(text: str, places: list[int]) -> list[str]:
    """`text` in pieces."""
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.name)
@settings(max_examples=40, deadline=None)
@given(
    places=st.lists(st.integers(0, 400), max_size=12),
    calls=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(ARGUMENTS)), min_size=1, max_size=3),
    said=st.sampled_from(["", "Let me see. ", "A <tool", "\n\n"]),
)
def test_what_is_written_is_read_back_however_it_is_cut(
    syntax: CallSyntax, places: list[int], calls: list[tuple[str, dict[str, Any]]], said: str
) -> None:
    if not syntax.trigger:
        said = said if not said.strip() else ""  # nothing may come before
    text, found, deltas = read(syntax, cut(said + written(syntax, calls), places))
    assert text == said.rstrip()
    assert found == calls
    streamed = [""] * len(calls)
    for delta in deltas:
        streamed[delta.index] += delta.function.arguments or ""
    assert [json.loads(arguments) for arguments in streamed] == [arguments for _, arguments in calls]
    assert sum(delta.id is not None for delta in deltas) == len(calls)
    assert len({delta.id for delta in deltas if delta.id}) == len(calls)


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.name)
@settings(max_examples=30, deadline=None)
@given(text=st.text(alphabet='a <>{}[]"\n_toolcal:', max_size=40), places=st.lists(st.integers(0, 60), max_size=6))
def test_text_without_a_call_comes_through_whole(syntax: CallSyntax, text: str, places: list[int]) -> None:
    reader = CallReader(syntax, NAMES)
    said = "".join(reader.feed(piece)[0] for piece in cut(text, places)) + reader.finish()[0]
    assert said == text
    assert reader.calls == []


def test_a_cut_call_keeps_the_arguments_it_has() -> None:
    reader = CallReader(HERMES, NAMES)
    reader.feed('<tool_call>\n{"name": "get", "arguments": {"city": "Os')
    reader.finish()
    assert [(call.function.name, call.function.arguments) for call in reader.calls] == [("get", '{"city": "Os')]


def test_a_call_is_one_entry_per_chunk() -> None:
    reader = CallReader(PLAIN_JSON, NAMES)
    _, deltas = reader.feed(written(PLAIN_JSON, [("get", {"city": "x"}), ("get", {"city": "y"})]))
    once = joined(deltas)
    assert [delta.index for delta in once] == [0, 1]
    assert [json.loads(delta.function.arguments or "") for delta in once if delta.function] == [
        {"city": "x"},
        {"city": "y"},
    ]


# --- the grammars -------------------------------------------------------------------------------------------------


def accepts(compiler: GrammarCompiler, vocabulary: Vocabulary, syntax: CallSyntax, text: str, **options: Any) -> bool:
    """Whether an answer may be exactly `text`."""
    options = {"required": False, "parallel": True, **options}
    literal = literal_for(syntax.markers, compiler.symbol)
    rules = call_rules(syntax, [(name, SCHEMA) for name in NAMES], literal, json_rule, **options)
    matcher = compiler.compile_body(rules).matcher()
    tokens = vocabulary.tokenize(text, special=True)
    return matcher.legal_prefix(tokens) == len(tokens) and _ends(matcher, tokens)


def _ends(matcher: Any, tokens: list[int]) -> bool:
    for token in tokens:
        matcher.consume(token)
    return bool(matcher.is_accepting)


@pytest.mark.parametrize("syntax", [*SYNTAXES, SPECIAL], ids=lambda syntax: syntax.name)
def test_the_grammar_accepts_calls_and_text_and_nothing_between(
    compiler: GrammarCompiler, vocabulary: Vocabulary, syntax: CallSyntax
) -> None:
    one = written(syntax, [("get_weather", {"city": "Oslo"})])
    two = written(syntax, [("get_weather", {"city": "Oslo"}), ("get", {"city": "x", "days": 3})])
    wrong_type = written(syntax, [("get", {"city": 3})])
    wrong_name = written(syntax, [("take", {"city": "x"})])
    check = lambda text, **options: accepts(compiler, vocabulary, syntax, text, **options)  # noqa: E731
    assert check(one) and check(two) and check("Hello, { there.")
    assert not check(wrong_type) and not check(wrong_name) and not check(one[:-1])
    assert check(one, required=True) and not check("Hello.", required=True)
    assert check(one, parallel=False) and not check(two, parallel=False)
    assert not check(one + "\nand more text")
    assert not syntax.trigger or check("Let me see. " + one)


@pytest.mark.parametrize("syntax", [HERMES, LLAMA3_TAGGED, SPECIAL], ids=lambda syntax: syntax.name)
def test_beside_a_response_format_an_answer_is_a_document_or_calls(
    compiler: GrammarCompiler, vocabulary: Vocabulary, syntax: CallSyntax
) -> None:
    document = json_rule({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
    one = written(syntax, [("get", {"city": "Oslo"})])
    assert accepts(compiler, vocabulary, syntax, one, document=document)
    assert accepts(compiler, vocabulary, syntax, '{"name": "get_weather"}', document=document)
    assert not accepts(compiler, vocabulary, syntax, "Hello.", document=document)


# --- FunctionGemma's notation -------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(alphabet="ab{}:,[]\n ", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(arguments=st.dictionaries(st.text("abc_", min_size=1, max_size=4), VALUES, max_size=4))
def test_the_notation_is_read_back_as_the_same_json(arguments: dict[str, Any]) -> None:
    assert json.loads(read_arguments(write_value(arguments))) == arguments


@pytest.mark.parametrize("text", ["", "{", "{a:", "{a:<escape>x", "{a:1}x", "[1]", "{a:x}"])
def test_what_is_not_in_the_notation_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        read_arguments(text)


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"city": "Oslo"}, True),
        ({"city": "Oslo", "days": -3, "unit": "F", "tags": ["a", "b"]}, True),
        ({"city": "Oslo", "tags": []}, True),
        ({}, False),
        ({"days": 3}, False),
        ({"city": "Oslo", "unit": "K"}, False),
        ({"city": "Oslo", "days": "3"}, False),
        ({"days": 3, "city": "Oslo"}, False),  # the schema's order
        ({"city": "Oslo", "other": 1}, False),
    ],
)
def test_the_notation_s_grammar_follows_the_schema(
    compiler: GrammarCompiler, vocabulary: Vocabulary, arguments: dict[str, Any], fits: bool
) -> None:
    text = written(FUNCTION_GEMMA, [("get", arguments)])
    assert accepts(compiler, vocabulary, FUNCTION_GEMMA, text, required=True) == fits


# --- which model uses which ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "syntax"),
    [
        ("{% if tools %}<tool_call>{% endif %}", HERMES),
        ("{% if tools %}[TOOL_CALLS]{% endif %}", MISTRAL),
        ("{% if tools %}[TOOL_CALLS]x[ARGS]{% endif %}", MISTRAL_NAMED),
        ("{% if tools %}<|python_tag|>{% endif %}", LLAMA3),
        ("{% if tools %}<start_function_call>{% endif %}", FUNCTION_GEMMA),
        ("{{ messages[0].content }} <tool_call>", PLAIN_JSON),
        ("{% if tools %}an unknown way{% endif %}", PLAIN_JSON),
        ("", PLAIN_JSON),
    ],
)
def test_the_template_tells_the_syntax(template: str, syntax: CallSyntax) -> None:
    assert formats.syntax_of(template, tagged=False) is syntax
    assert formats.syntax_of(template, tagged=True).trigger


def test_mistral_s_ids_have_nine_characters() -> None:
    assert len(MISTRAL.make_id()) == 9
    assert HERMES.make_id().startswith("call_")


def test_matching_a_template_needs_its_own_mark() -> None:
    assert function_gemma.matches("<start_function_call>") and not function_gemma.matches("<start_of_turn>")
