"""What is enforced, what is refused, what is weakened, and what the messages say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from atelico.errors import SchemaError
from atelico.grammar import CompiledGrammar, GrammarCompiler, GrammarVocabulary
from atelico.grammar.patterns import without_look_around
from atelico.grammar.schema import path_text
from atelico.protocol.request import JsonObjectFormat, JsonSchema, JsonSchemaFormat, TextFormat

Compile = Callable[..., CompiledGrammar]
Accepts = Callable[[CompiledGrammar, str], bool]

ZOD_EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


UNENFORCEABLE = [
    ({"type": "array", "uniqueItems": True}, "uniqueItems: the keyword is not supported"),
    (obj(a={"not": {"type": "string"}}), "properties.a.not: the keyword is not supported"),
    (obj(a=obj(b={"type": "string", "format": "zip"})), 'properties.a.properties.b.format: the format "zip"'),
    (obj(e={"type": "string", "pattern": ZOD_EMAIL}), "properties.e.pattern: look-around is not supported"),
    (obj(v={"oneOf": [{"type": "integer"}, {"type": "number"}]}), "properties.v.oneOf: its alternatives"),
    ({"anyOf": [{"type": "string"}, {"type": "array", "contains": {"const": 1}}]}, "anyOf[1].contains: the keyword"),
    ({"type": "object", "properties": {"a": {}}, "minProperties": 1}, "minProperties: it is supported only where"),
    ({"$ref": "#/$defs/odd%20name", "$defs": {"odd name": {"not": {}}}}, '$defs["odd name"].not: the keyword'),
    ({"type": "object", "patternProperties": {"^a": {"type": "string"}, "b$": {}}}, "patternProperties: "),
    ({"disallow": "string"}, "disallow: the keyword is not supported"),
]


@pytest.mark.parametrize(("schema", "message"), UNENFORCEABLE)
def test_strict_refuses_what_cannot_be_enforced_and_names_keyword_and_path(
    compile_schema: Compile, schema: Any, message: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, strict=True)
    assert message in caught.value.message
    assert "'npc'" in caught.value.message
    assert caught.value.param == "response_format.json_schema.schema"
    assert caught.value.hint


@pytest.mark.parametrize("strict", [False, None])
@pytest.mark.parametrize(("schema", "message"), UNENFORCEABLE)
def test_without_strict_the_same_keyword_is_weakened_with_a_warning(
    compile_schema: Compile, schema: Any, message: str, strict: bool | None
) -> None:
    grammar = compile_schema(schema, strict=strict)
    assert len(grammar.warnings) == 1
    assert message in grammar.warnings[0]


def test_only_the_keywords_at_fault_are_weakened(compile_schema: Compile, accepts: Accepts) -> None:
    schema = obj(id={"type": "string", "pattern": "^[a-z]+$"}, tags={"type": "array", "uniqueItems": True})
    grammar = compile_schema(schema, strict=False)
    assert len(grammar.warnings) == 1
    assert accepts(grammar, '{"id":"ab","tags":[1,1]}')
    assert not accepts(grammar, '{"id":"AB","tags":[]}')


def test_every_ignored_keyword_has_its_own_warning(compile_schema: Compile) -> None:
    schema = obj(**{f"p{i}": {"type": "string", "format": f"odd{i}" if i % 2 else "date"} for i in range(10)})
    warnings = compile_schema(schema, strict=False).warnings
    assert [f"properties.p{i}.format" in w for i, w in zip(range(1, 10, 2), warnings, strict=True)] == [True] * 5


def test_look_around_is_weakened_to_the_rest_of_the_pattern(compile_schema: Compile, accepts: Accepts) -> None:
    grammar = compile_schema(obj(e={"type": "string", "pattern": ZOD_EMAIL}), strict=False)
    assert accepts(grammar, '{"e":"a@b.co"}')
    assert not accepts(grammar, '{"e":"nope"}')


@pytest.mark.parametrize(
    ("pattern", "rest"),
    [
        (r"^(?!a)b$", "^b$"),
        (r"(?=(x[)]|\)))y", "y"),
        (r"\bfoo\B", "foo"),
        (r"[(?!]\\b", r"[(?!]\\b"),
        (r"[\b]x", r"[\b]x"),
        (r"(?<=a)(?<!b)c", "c"),
        (r"(?:a)", "(?:a)"),
        (r"(?!unclosed", ""),
    ],
)
def test_taking_look_around_out_of_a_pattern_leaves_the_rest(pattern: str, rest: str) -> None:
    assert without_look_around(pattern) == rest


def test_weakened_pattern_properties_keep_their_names_possible(compile_schema: Compile, accepts: Accepts) -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^a": {"type": "string"}, "b$": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert accepts(compile_schema(schema, strict=False), '{"ax":"s","xb":1}')


def test_keywords_that_say_nothing_are_accepted_strictly(compile_schema: Compile, accepts: Accepts) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": False, "maxItems": 2.0}},
        "required": ["a"],
        "minProperties": 1,
        "propertyNames": {},
        "unevaluatedProperties": False,
        "additionalProperties": False,
        "if": {},
        "not": False,
        "dependentRequired": {},
    }
    grammar = compile_schema(schema)
    assert grammar.warnings == ()
    assert accepts(grammar, '{"a":[1,2]}')
    assert not accepts(grammar, '{"a":[1,2,3]}')
    assert not accepts(grammar, "{}")


def test_what_nothing_refers_to_is_no_reason_to_refuse(compile_schema: Compile) -> None:
    assert compile_schema({"type": "string", "$defs": {"unused": {"not": {}}}}).warnings == ()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (False, "is false"),
        (obj(a={"type": "integer", "minimum": 5, "maximum": 1}), "properties.a.maximum: Unsatisfiable"),
        (obj(a=obj(b=False)), "properties.a.properties.b"),
        (obj(v={"$ref": "https://example.com/x.json"}), "properties.v.$ref: what it refers to is not in the schema"),
        (obj(v={"$ref": "#/$defs/none"}), "properties.v.$ref"),
        ({"$ref": "#"}, "no finite document"),
        (obj(a={"type": "dragon"}), "properties.a.type: Invalid type: dragon"),
        (obj(a={"type": "integer", "minimum": "x"}), "properties.a.minimum"),
        ({"enum": []}, "enum"),
        ({"type": "object", "properties": 5}, "properties"),
        ({"const": "\ud800"}, "const"),
    ],
)
def test_what_no_document_can_satisfy_is_refused_with_or_without_strict(
    compile_schema: Compile, schema: Any, message: str, strict: bool
) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, strict=strict)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("schema", "accepted", "refused"),
    [
        ({"type": "object", "properties": {}}, ["{}", '{"a":1}'], ["[]"]),
        ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
        ({"type": "string", "pattern": r"^a\/b$"}, ['"a/b"'], ['"ab"']),
        ({"type": "string", "pattern": r"^hello there indeed\!$"}, ['"hello there indeed!"'], ['"hello"', "hello"]),
        ({"type": "array", "items": {"type": "string"}, "minItems": 2}, ['["a","b"]'], ['["a"]', '["a",1]']),
        ({"enum": ["a/b", 'say "x"', "back\\slash"]}, ['"a/b"', '"back\\\\slash"'], ['"a\\/b"', '"c"']),
        ({"type": ["string", "null"], "enum": ["F", "C", None]}, ['"F"', "null"], ['"K"', "1"]),
        ({"type": "integer", "minimum": -123, "maximum": 42}, ["-123", "42", "0"], ["43", "01", "1.5"]),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, ['"a"', '"b"'], ["a", '"\\"a\\""']),
        ({"type": "string", "minLength": 1}, ['"é😀"', '"\\u00e9"', '"\\n"'], ['""', '"\n"', '"\\u27t"', '"\\x"']),
    ],
)
def test_schemas_that_other_systems_got_wrong(
    compile_schema: Compile, accepts: Accepts, schema: Any, accepted: list[str], refused: list[str]
) -> None:
    grammar = compile_schema(schema)
    assert [text for text in accepted if not accepts(grammar, text)] == []
    assert [text for text in refused if accepts(grammar, text)] == []


def nested(depth: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


@pytest.mark.timeout(60)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(nested(200, lambda x: obj(a=x), {"type": "string"}), id="200 nested objects"),
        pytest.param(nested(20_000, lambda x: {"items": x}, {}), id="beyond the recursion limit"),
        pytest.param({"const": nested(20_000, lambda x: [x], 1)}, id="nested data beyond the recursion limit"),
        pytest.param({"enum": [f"v{i}" for i in range(100_000)]}, id="100k enum"),
        pytest.param({"enum": list(range(400_000))}, id="400k values"),
        pytest.param({"type": "object", "properties": {f"p{i}": {} for i in range(5000)}}, id="5,000 optional"),
    ],
)
def test_a_schema_beyond_the_limits_is_refused(compile_schema: Compile, schema: Any, strict: bool) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, strict=strict)
    assert len(caught.value.message) < 600


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "object", "properties": {f"p{i}": {} for i in range(800)}}, id="800 optional"),
        pytest.param(obj(**{f"p{i}": {"type": "integer"} for i in range(5000)}), id="5,000 required"),
        pytest.param({"enum": [f"v{i}" for i in range(5000)]}, id="5,000 enum"),
        pytest.param({"type": "string", "pattern": "^(a|b){2000000000,2147483647}$"}, id="repetition counts"),
        pytest.param({"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"}, id="nested repetition"),
        pytest.param({"type": "string", "maxLength": 10**9}, id="maxLength"),
        pytest.param({"type": "array", "minItems": 10**6}, id="minItems"),
        pytest.param({"anyOf": [obj(**{f"k{i}": {"const": i}}) for i in range(500)]}, id="500 alternatives"),
        pytest.param({"allOf": [obj(k={"minimum": i}) for i in range(200)]}, id="200-way allOf"),
        pytest.param(nested(50, lambda x: obj(a=x), {"type": "string"}), id="50 nested objects"),
        pytest.param({"type": "string", "pattern": ".*a.{30}"}, id="exponential automaton"),
    ],
)
def test_a_large_schema_within_the_limits_gives_masks(compile_schema: Compile, schema: Any) -> None:
    matcher = compile_schema(schema).matcher()
    draft = matcher.forced()
    rows = matcher.masks(draft)
    assert all(row.any() for row in rows)


def test_the_request_cannot_override_the_policy(
    compile_schema: Compile, accepts: Accepts, encode: Callable[[str], list[int]]
) -> None:
    schema = {
        **obj(**{"x-guidance": {"type": "string", "x-guidance": {"lenient": True}}}),
        "x-guidance": {"whitespace_flexible": True, "whitespace_pattern": " *", "lenient": True},
    }
    grammar = compile_schema(schema)
    assert accepts(grammar, '{"x-guidance":"a property of this name stays"}')
    matcher = grammar.matcher()
    for token in encode('{"x-guidance":'):
        matcher.consume(token)
    assert matcher.legal_prefix(encode(" " * 200)) <= 1
    with pytest.raises(SchemaError):
        compile_schema({**schema, "uniqueItems": True, "not": {}})


def test_the_order_of_properties_is_the_schemas(compile_schema: Compile, accepts: Accepts) -> None:
    schema = obj(reasoning={"type": "string"}, answer={"type": "integer"})
    schema["required"] = ["answer", "reasoning"]
    grammar = compile_schema(schema)
    assert accepts(grammar, '{"reasoning":"r","answer":1}')
    assert not accepts(grammar, '{"answer":1,"reasoning":"r"}')


def test_optional_properties_may_be_left_out_anywhere(compile_schema: Compile, accepts: Accepts) -> None:
    schema = {**obj(a={"type": "integer"}, b={"type": "integer"}, c={"type": "integer"}), "required": ["b"]}
    grammar = compile_schema(schema)
    assert [accepts(grammar, text) for text in ('{"b":1}', '{"a":1,"b":1}', '{"b":1,"c":1}', '{"a":1,"c":1}')] == [
        True,
        True,
        True,
        False,
    ]


def test_annotations_change_nothing(compile_schema: Compile, accepts: Accepts) -> None:
    schema = obj(v={"type": "string", "title": "T", "description": 'quotes " \\ <|im_end|> \n', "default": "d"})
    schema |= {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": "c", "examples": [{"v": "e"}]}
    grammar = compile_schema(schema)
    assert grammar.warnings == ()
    assert accepts(grammar, '{"v":"s"}')
    assert not accepts(grammar, '{"v":1}')


def test_the_schema_of_the_request_is_not_changed(compile_schema: Compile) -> None:
    schema = {"type": "array", "uniqueItems": True, "x-guidance": {}}
    compile_schema(schema, strict=False)
    assert schema == {"type": "array", "uniqueItems": True, "x-guidance": {}}


def test_text_needs_no_grammar(compiler: GrammarCompiler) -> None:
    assert compiler.compile(TextFormat()) is None
    assert compiler.compile(None) is None


def test_json_object_is_any_object(compiler: GrammarCompiler, accepts: Accepts) -> None:
    grammar = compiler.compile(JsonObjectFormat())
    assert grammar is not None
    assert accepts(grammar, '{"a":{"b":[1,true,null,"x"]}}')
    assert not accepts(grammar, "[1]")


def test_json_object_may_carry_a_schema(compiler: GrammarCompiler, accepts: Accepts) -> None:
    grammar = compiler.compile(JsonObjectFormat(schema=obj(a={"type": "integer"})))
    assert grammar is not None
    assert accepts(grammar, '{"a":1}')
    assert not accepts(grammar, '{"a":"s"}')
    with pytest.raises(SchemaError) as caught:
        compiler.compile(JsonObjectFormat(schema={"type": "dragon"}))
    assert caught.value.param == "response_format.schema"


def test_true_is_any_json_and_a_missing_schema_is_any_object(compile_schema: Compile, accepts: Accepts) -> None:
    for text in ("1", '{"a":[null]}', '"s"', "[true]"):
        assert accepts(compile_schema(True), text)
        assert accepts(compile_schema({}), text)
    assert accepts(compile_schema(None), "{}")
    assert not accepts(compile_schema(None), "1")


def test_strict_may_be_a_word(compiler: GrammarCompiler) -> None:
    weak = JsonSchemaFormat(json_schema=JsonSchema(name="n", schema={"uniqueItems": True}, strict="false"))
    grammar = compiler.compile(weak)
    assert grammar is not None
    assert grammar.warnings
    strong = JsonSchemaFormat(json_schema=JsonSchema(name="n", schema={"uniqueItems": True}, strict="true"))
    with pytest.raises(SchemaError):
        compiler.compile(strong)


def test_compiled_grammars_are_remembered(compile_schema: Compile) -> None:
    schema = obj(a={"type": "integer"})
    first = compile_schema(schema)
    assert compile_schema(obj(a={"type": "integer"})) is first
    others = [
        compile_schema(schema, strict=False),
        compile_schema(schema, thinking=("<think>", "</think>", True)),
        compile_schema({**schema, "title": "other"}),
    ]
    assert len({first.key, *(other.key for other in others)}) == 4


def test_the_key_of_a_grammar_is_the_same_in_another_compiler(
    vocabulary: GrammarVocabulary, compile_schema: Compile
) -> None:
    schema = obj(a={"type": "integer"})
    again = GrammarCompiler(vocabulary).compile(
        JsonSchemaFormat(json_schema=JsonSchema(name="other_name", schema=schema, strict=True))
    )
    assert again is not None
    assert again.key == compile_schema(schema).key


def test_the_cache_forgets_the_least_recently_used(vocabulary: GrammarVocabulary) -> None:
    compiler = GrammarCompiler(vocabulary, cache_size=2)
    formats = [JsonObjectFormat(schema={"const": i}) for i in range(3)]
    first, second = compiler.compile(formats[0]), compiler.compile(formats[1])
    assert compiler.compile(formats[0]) is first
    compiler.compile(formats[2])
    assert compiler.compile(formats[0]) is first
    assert compiler.compile(formats[1]) is not second


def test_threads_that_ask_at_once_share_one_compilation(vocabulary: GrammarVocabulary) -> None:
    compiler = GrammarCompiler(vocabulary)
    barrier = threading.Barrier(8)
    got: list[CompiledGrammar | None] = []

    def ask() -> None:
        barrier.wait()
        got.append(compiler.compile(JsonObjectFormat(schema=obj(a={"enum": list(range(500))}))))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(map(id, got))) == 1


def test_a_refused_schema_is_refused_again_and_harms_no_other(compile_schema: Compile, accepts: Accepts) -> None:
    for _ in range(2):
        with pytest.raises(SchemaError):
            compile_schema({"type": "dragon"})
    assert accepts(compile_schema({"type": "null"}), "null")


def test_paths_read_like_the_schema() -> None:
    assert path_text(("properties", "e-mail", "anyOf", 0, "not")) == "properties.e-mail.anyOf[0].not"
    assert path_text(("properties", "a.b", "type")) == 'properties["a.b"].type'
    assert path_text(()) == "the schema"
