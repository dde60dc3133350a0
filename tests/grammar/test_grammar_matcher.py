"""One answer's place in its grammar: masks along a draft, forced tokens, commits, and nothing left behind."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llguidance import LLParserLimits

import atelico.grammar.compiler
from atelico.errors import InferenceError
from atelico.grammar import CompiledGrammar, GrammarCompiler, GrammarVocabulary, Matcher
from atelico.grammar.matcher import MAX_DIGITS
from atelico.protocol.request import JsonObjectFormat

Encode = Callable[[str], list[int]]
Compile = Callable[..., CompiledGrammar]
At = Callable[..., Matcher]
Allowed = Callable[[Any], set[int]]

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
NPC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "mood": {"enum": ["calm", "angry", None]},
        "gold": {"type": "integer", "minimum": 0, "maximum": 999},
        "items": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    },
    "required": ["name", "mood", "gold", "items"],
    "additionalProperties": False,
}
TEXTS = [
    '{"name": "Ayla", "mood": "calm", "gold": 12, "items": ["rope", "lamp"]}',
    '{"name": "Borg", "mood": null, "gold": 0, "items": []}',
    '\n {"name": "Ciri é😀", "mood": "angry", "gold": 999, "items": []}',
    '{"name": "Dan", "mood": "sad"}',
    '{"mood": "calm"}',
]


def one_by_one(matcher: Matcher, draft: list[int]) -> list[Any]:
    """The masks of plain decoding: one per committed token."""
    rows = [matcher.masks()[0]]
    for token in draft:
        matcher.consume(token)
        rows.append(matcher.masks()[0])
    return rows


@pytest.mark.parametrize("text", TEXTS[:3])
def test_masks_of_a_draft_equal_those_of_plain_decoding(at: At, encode: Encode, text: str) -> None:
    tokens = encode(text)
    for start in range(0, len(tokens), 5):
        drafted, plain = at(NPC), at(NPC)
        for token in tokens[:start]:
            drafted.consume(token)
            plain.consume(token)
        draft = tokens[start : start + 8]
        assert np.array_equal(drafted.masks(draft), np.stack(one_by_one(plain, draft)))


def test_nothing_that_is_asked_of_a_matcher_changes_its_state(at: At, encode: Encode) -> None:
    rng = random.Random(7)
    pool = sorted({token for text in TEXTS for token in encode(text)} | {0, 2, 5, 49_151, 49_152, -1})
    for _ in range(20):
        matcher = at(NPC)
        target = encode(rng.choice(TEXTS[:3]))
        for token in target:
            before = matcher.masks()
            for _ in range(3):
                tail = target[target.index(token) :][: rng.randrange(8)]
                draft = tail + rng.choices(pool, k=rng.randrange(6))
                question = rng.choice([Matcher.masks, Matcher.legal_prefix, lambda m, d: m.extend(d, 6)])
                question(matcher, draft)
                matcher.forced()
            assert np.array_equal(matcher.masks(), before)
            matcher.consume(token)
        assert matcher.is_complete


def test_a_draft_is_cut_at_the_first_token_that_the_grammar_refuses(at: At, encode: Encode) -> None:
    matcher = at(PERSON)
    legal = encode('{"name": "A", "age": ')
    assert matcher.legal_prefix(legal + encode('"x"}')) == len(legal)
    assert matcher.legal_prefix(legal) == len(legal)
    assert matcher.legal_prefix([]) == 0


def test_rows_after_a_refused_token_allow_nothing(at: At, encode: Encode, allowed: Allowed) -> None:
    draft = [*encode('{"name"'), *encode("zzz"), *encode(":")]
    legal = at(PERSON).legal_prefix(draft)
    rows = at(PERSON).masks(draft)
    assert len(rows) == len(draft) + 1
    assert all(allowed(row) for row in rows[: legal + 1])
    assert not rows[legal + 1 :].any()


def test_end_tokens_and_foreign_ids_in_a_draft_are_refused_and_harm_nothing(
    at: At, encode: Encode, vocabulary: GrammarVocabulary
) -> None:
    matcher = at(PERSON)
    before = matcher.masks()
    good = encode('{"name"')
    for bad in (*vocabulary.eos_ids, vocabulary.n_tokens, vocabulary.n_tokens + 1000, 2**31, -1):
        assert matcher.legal_prefix([*good, bad]) == len(good)
        assert matcher.legal_prefix([bad]) == 0
        assert matcher.extend([bad], 4) == matcher.forced()[:4]
        assert not matcher.masks([*good, bad])[-1].any()
        assert np.array_equal(matcher.masks(), before)
        with pytest.raises(InferenceError):
            matcher.consume(bad)
    for token in encode('{"name": "A", "age": 3}'):
        matcher.consume(token)
    assert matcher.is_complete


def test_a_draft_beyond_the_end_of_the_document_gets_end_only_rows(
    at: At, encode: Encode, allowed: Allowed, vocabulary: GrammarVocabulary
) -> None:
    matcher = at(PERSON, '{"name": "A", "age": ')
    end = encode("3}")
    assert matcher.legal_prefix(end + encode(" and more")) == len(end)
    rows = matcher.masks(end)
    assert allowed(rows[-1]) == set(vocabulary.eos_ids)
    assert not matcher.masks(end + encode(" and"))[len(end) + 1 :].any()
    assert not matcher.is_complete
    for token in end:
        matcher.consume(token)
    assert matcher.is_complete
    assert matcher.is_accepting
    assert matcher.forced() == []
    assert matcher.legal_prefix(encode("}")) == 0
    assert allowed(matcher.masks()[0]) == set(vocabulary.eos_ids)


def test_a_document_that_may_go_on_is_accepting_but_not_complete(
    at: At, allowed: Allowed, encode: Encode, vocabulary: GrammarVocabulary
) -> None:
    matcher = at({"type": "integer"}, "12")
    assert matcher.is_accepting
    assert not matcher.is_complete
    row = allowed(matcher.masks()[0])
    assert set(vocabulary.eos_ids) < row
    assert encode("3")[0] in row


def test_a_drafted_end_that_is_allowed_is_no_failure_of_the_engine(
    at: At, monkeypatch: pytest.MonkeyPatch, encode: Encode, vocabulary: GrammarVocabulary
) -> None:
    matcher = at({"type": "integer"}, "12")
    monkeypatch.setattr(matcher, "_rebuild", lambda: pytest.fail("the engine was built anew"))
    for end in vocabulary.eos_ids:
        rows = matcher.masks([*encode("3"), end, *encode("4")])
        assert [row.any() for row in rows] == [True, True, False, False]


def test_an_end_is_not_allowed_before_the_document_is_whole(
    at: At, encode: Encode, allowed: Allowed, vocabulary: GrammarVocabulary
) -> None:
    tokens = encode(TEXTS[0])
    rows = at(NPC).masks(tokens)
    assert all(not (allowed(row) & vocabulary.eos_ids) for row in rows[:-1])


def test_a_refused_token_cannot_be_committed(at: At, encode: Encode) -> None:
    matcher = at(PERSON, '{"name"')
    with pytest.raises(InferenceError):
        matcher.consume(encode("}")[0])


def test_forced_tokens_are_the_only_legal_ones(at: At, encode: Encode, allowed: Allowed) -> None:
    matcher = at({"const": "the only possible answer"})
    forced = matcher.forced()
    matcher = at(PERSON, '{"na')
    forced = matcher.forced()
    assert forced
    assert matcher.legal_prefix(forced) == len(forced)
    rows = matcher.masks(forced)
    assert [allowed(row) for row in rows[:-1]] == [{token} for token in forced]


def test_a_draft_is_extended_by_what_is_forced_after_it(at: At, encode: Encode) -> None:
    matcher = at(PERSON)
    draft = encode('{"name": "A", "')
    extended = matcher.extend(draft, 32)
    assert extended[: len(draft)] == draft
    assert len(extended) > len(draft)
    assert matcher.legal_prefix(extended) == len(extended)
    assert matcher.extend(draft, len(draft) + 1) == extended[: len(draft) + 1]
    assert matcher.extend(draft, 2) == draft[:2]
    assert matcher.extend(draft, 0) == []
    cut = matcher.extend(encode('{"name"') + encode("}"), 32)
    assert cut[: len(encode('{"name"'))] == encode('{"name"')
    assert matcher.legal_prefix(cut) == len(cut)


def test_every_mask_allows_the_forced_token_in_the_models_own_spelling(at: At, encode: Encode) -> None:
    schema = {"type": "object", "properties": {"occupation": {"const": "blacksmith"}}, "required": ["occupation"]}
    matcher = at(schema, '{"')
    forced = matcher.forced()
    assert forced == encode('occupation": "blacksmith')[: len(forced)]
    assert len(forced) > 1


def test_control_tokens_are_never_legal(
    at: At, encode: Encode, allowed: Allowed, vocabulary: GrammarVocabulary
) -> None:
    inside_string = at(PERSON, '{"name": "A')
    control = set(range(17)) - vocabulary.eos_ids
    assert not allowed(inside_string.masks()[0]) & set(range(17))
    assert inside_string.legal_prefix([min(control)]) == 0
    # Spelled out they are ordinary text.
    assert inside_string.legal_prefix(encode("<|im_end|>")) == len(encode("<|im_end|>"))


def test_matchers_of_one_grammar_do_not_disturb_each_other(compile_schema: Compile, encode: Encode) -> None:
    grammar = compile_schema(PERSON)
    first, second = grammar.matcher(), grammar.matcher()
    start = second.masks()
    for token in encode('{"name": "A"'):
        first.consume(token)
    assert np.array_equal(second.masks(), start)
    assert not np.array_equal(first.masks(), start)


def test_masks_are_written_into_the_callers_rows(at: At, encode: Encode, vocabulary: GrammarVocabulary) -> None:
    matcher = at(PERSON)
    draft = encode('{"name"')
    n_rows = len(draft) + 1
    out = np.full((n_rows + 3, vocabulary.n_words), 7, dtype=np.int32)
    rows = matcher.masks(draft, out)
    assert rows.base is out
    assert np.array_equal(rows, matcher.masks(draft))
    assert (out[n_rows:] == 7).all()


@pytest.mark.parametrize(
    ("shape", "dtype", "order"),
    [((2, 10), np.int32, "C"), ((1, 1536), np.int32, "C"), ((9, 1536), np.int64, "C"), ((9, 1536), np.int32, "F")],
)
def test_rows_of_another_shape_are_refused_before_anything_is_written(
    at: At, encode: Encode, shape: tuple[int, int], dtype: Any, order: Any
) -> None:
    matcher = at(PERSON)
    out = np.zeros(shape, dtype=dtype, order=order)
    with pytest.raises(ValueError, match="masks need int32"):
        matcher.masks(encode('{"name"'), out)
    assert not out.any()


def test_masks_can_be_computed_on_another_thread(at: At, encode: Encode) -> None:
    matcher = at(NPC)
    draft = encode(TEXTS[0])
    out: list[Any] = []
    thread = threading.Thread(target=lambda: out.append(matcher.masks(draft)))
    thread.start()
    thread.join()
    assert np.array_equal(out[0], matcher.masks(draft))


WORDY = {"type": "array", "items": {"type": "string", "pattern": r"^(?:\S+\s+){0,99}\S+$", "maxLength": 300}}
WORDS = '["' + "the quick brown fox jumps over a lazy dog " * 6 + 'end"]'


def test_a_limit_met_in_a_draft_leaves_the_answer_and_later_answers_intact(
    monkeypatch: pytest.MonkeyPatch, vocabulary: GrammarVocabulary, encode: Encode
) -> None:
    tight = LLParserLimits(max_items_in_row=20_000, step_lexer_fuel=150_000, verbose_errors=False)
    monkeypatch.setattr(atelico.grammar.compiler, "LIMITS", tight)
    grammar = GrammarCompiler(vocabulary).compile(JsonObjectFormat(schema=WORDY))
    assert grammar is not None
    tokens = encode(WORDS)
    rebuilt = []
    monkeypatch.setattr(grammar, "_rebuild", lambda rebuild=grammar._rebuild: rebuilt.append(1) or rebuild())
    for _ in range(2):
        matcher = grammar.matcher()
        for i in range(0, len(tokens), 24):
            matcher.legal_prefix(tokens[i:])  # walks far on the fuel of one mask
            rows = matcher.masks(tokens[i : i + 24])
            assert all(row.any() for row in rows)
            for token in tokens[i : i + 24]:
                matcher.consume(token)
        assert matcher.is_complete
    assert rebuilt, "the limit was not met: this test tests nothing"


def test_a_limit_that_remains_is_an_error_and_not_an_empty_answer(
    monkeypatch: pytest.MonkeyPatch, vocabulary: GrammarVocabulary, encode: Encode
) -> None:
    grammar = GrammarCompiler(vocabulary).compile(JsonObjectFormat(schema=WORDY))
    assert grammar is not None
    tight = LLParserLimits(step_lexer_fuel=1_000, verbose_errors=False)
    monkeypatch.setattr(atelico.grammar.compiler, "LIMITS", tight)
    grammar._rebuild()
    matcher = grammar.matcher()
    with pytest.raises(InferenceError) as caught:
        for token in encode(WORDS):
            matcher.masks()
            matcher.consume(token)
    assert "grammar engine failed" in caught.value.message


# --- runaway --------------------------------------------------------------------------------------------------------


def drive(matcher: Matcher, allowed: Allowed, wanted: list[int], limit: int) -> list[int]:
    """A model that always wants the first of `wanted` that is legal, else the lowest legal token."""
    taken = []
    while not matcher.is_complete and len(taken) < limit:
        row = allowed(matcher.masks()[0])
        token = next((token for token in wanted if token in row), None)
        if token is None:
            break
        matcher.consume(token)
        taken.append(token)
    return taken


def test_whitespace_cannot_run_away(at: At, encode: Encode, allowed: Allowed) -> None:
    for text, most in (
        ("", 2),
        ("{", 0),
        ('{"name":', 1),
        ('{"name": "A"', 0),
        ('{"name": "A",', 1),
        ('{"name": "A", "age": 3', 0),
    ):
        taken = drive(at(PERSON, text), allowed, [encode("\n")[0], encode(" ")[0]], 100)
        assert len(taken) <= most


def test_an_answer_may_begin_with_a_little_whitespace_and_ends_without_any(at: At) -> None:
    assert at(PERSON, ' {"name": "A", "age": 3}').is_complete
    assert at(PERSON, '\n\n{"name": "A", "age": 3}').is_complete
    assert at({"type": "object"}, "{}").is_complete


@pytest.mark.parametrize("text", ['{"n": 0.', '{"n": ', '{"n": 1e'])
def test_digits_cannot_run_away(at: At, encode: Encode, allowed: Allowed, text: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    digit = encode("7")[0]
    taken = drive(at(schema, text), allowed, [digit], 1000)
    assert len(taken) == MAX_DIGITS


def test_digits_that_run_away_inside_a_draft_end_there(at: At, encode: Encode, allowed: Allowed) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    matcher = at(schema, '{"n": ')
    digit = encode("7")[0]
    rows = matcher.masks([digit] * (MAX_DIGITS + 3))
    assert digit in allowed(rows[MAX_DIGITS - 1])
    assert digit not in allowed(rows[MAX_DIGITS])
    assert digit in allowed(matcher.masks()[0])


def test_digits_in_a_string_may_go_on(at: At, encode: Encode, allowed: Allowed) -> None:
    digit = encode("7")[0]
    assert len(drive(at(PERSON, '{"name": "'), allowed, [digit], 200)) == 200


# --- the vocabulary -------------------------------------------------------------------------------------------------


def test_padding_is_never_legal(encode: Encode, allowed: Allowed, vocabulary: GrammarVocabulary) -> None:
    padded = small_vocabulary(n_padding=40)
    grammar = GrammarCompiler(padded).compile(JsonObjectFormat())
    assert grammar is not None
    matcher = grammar.matcher()
    assert matcher.masks().shape == (1, (257 + 40 + 31) // 32)
    matcher.consume(ord("{"))
    matcher.consume(ord('"'))
    assert max(allowed(matcher.masks()[0])) < 256
    assert matcher.legal_prefix([270]) == 0


def test_a_tokeniser_that_puts_a_space_before_every_text_is_not_believed() -> None:
    spaced = small_vocabulary(lambda raw: list(b" " + raw))
    grammar = GrammarCompiler(spaced).compile(JsonObjectFormat(schema={"const": "forced text"}))
    assert grammar is not None
    matcher = grammar.matcher()
    for byte in b'"for':
        matcher.consume(byte)
    assert bytes(matcher.forced()).startswith(b"ced te")


def test_a_vocabulary_needs_an_end_and_its_ids_inside() -> None:
    with pytest.raises(ValueError, match="end token"):
        GrammarVocabulary.build([b"a"], [], [], None, list)
    with pytest.raises(ValueError, match="outside"):
        GrammarVocabulary.build([b"a"], [], [1], None, list)


def small_vocabulary(tokenize: Callable[[bytes], list[int]] = list, n_padding: int = 0) -> GrammarVocabulary:
    """One token per byte, an end token, and padding."""
    pieces = [bytes([byte]) for byte in range(256)] + [b"<end>"] + [b""] * n_padding
    return GrammarVocabulary.build(pieces, [256], [256], None, tokenize)
