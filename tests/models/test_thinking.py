"""Thoughts are parted from answers, whatever the pieces the text comes in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atelico.models.thinking import FORMATS, ThinkingFormat, ThinkSplitter, detect, split, starts_inside

THINK = ThinkingFormat("<think>", "</think>")

PIECES = st.lists(
    st.one_of(
        st.sampled_from(["<think>", "</think>", "<think", "</thi", "<", ">", "\n", " ", "\n\n", "think"]),
        st.text(alphabet="ab<>/ \n", max_size=4),
    ),
    max_size=12,
).map("".join)


def in_pieces(text: str, cuts: list[int], inside: bool) -> tuple[str | None, str]:
    splitter = ThinkSplitter(THINK, inside=inside)
    bounds = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    deltas = [splitter.feed(text[a:b]) for a, b in pairwise(bounds)]
    deltas.append(splitter.finish())
    return "".join(r for r, _ in deltas) or None, "".join(a for _, a in deltas)


@pytest.mark.parametrize(
    ("text", "inside", "reasoning", "answer"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", False, "Hm.", "Yes."),
        ("Hm.\n</think>\n\nYes.", True, "Hm.", "Yes."),
        ("<think>Hm.</think>Yes.", True, "Hm.", "Yes."),
        ("<think>\n\n</think>\n\nYes.", False, None, "Yes."),
        ("\n\n</think>\n\nYes.", True, None, "Yes."),
        ("Just an answer.", False, None, "Just an answer."),
        ("  leading space stays", False, None, "  leading space stays"),
        ("\n<think>a</think>b", False, "a", "b"),
        ("<think>cut off while thi", False, "cut off while thi", ""),
        ("<think>cut off in its tag </thi", False, "cut off in its tag </thi", ""),
        ("<think>a</think>\n<think>b</think>\nc", False, "a\nb", "c"),
        ("The tag <think> is text here </think>.", False, None, "The tag <think> is text here </think>."),
        ('<think>a</think>{"x": "<think>"}', False, "a", '{"x": "<think>"}'),
        ("<thi", False, None, "<thi"),
        ("<think>a < b </ c</think> d", False, "a < b </ c", " d"),
        ("", False, None, ""),
        ("", True, None, ""),
    ],
)
def test_thoughts_and_answer_are_parted(text: str, inside: bool, reasoning: str | None, answer: str) -> None:
    assert split(text, THINK, inside=inside) == (reasoning, answer)


@given(text=PIECES, cuts=st.lists(st.integers(0, 200), max_size=20), inside=st.booleans())
def test_pieces_give_what_the_whole_gives(text: str, cuts: list[int], inside: bool) -> None:
    assert in_pieces(text, cuts, inside) == split(text, THINK, inside=inside)


@given(text=PIECES, inside=st.booleans())
def test_single_characters_never_leak_a_tag(text: str, inside: bool) -> None:
    splitter = ThinkSplitter(THINK, inside=inside)
    reasoning = ""
    for character in text:
        reasoning += splitter.feed(character)[0]
        assert THINK.close not in reasoning


@given(st.text(alphabet="ab \n<", max_size=30))
def test_text_without_tags_passes_through(text: str) -> None:
    assert split(text, THINK) == (None, text)


def test_no_part_of_a_tag_is_given_out_before_it_is_known() -> None:
    splitter = ThinkSplitter(THINK, inside=True)
    assert splitter.feed("a</th") == ("a", "")
    assert splitter.feed("ink") == ("", "")
    assert splitter.inside
    assert splitter.feed(">b") == ("", "b")
    assert not splitter.inside


def test_thought_streams_word_by_word() -> None:
    splitter = ThinkSplitter(THINK)
    assert [splitter.feed(piece)[0] for piece in ("<think>\n", "one", " two", "\n", "</think>")] == [
        "",
        "one",
        " two",
        "",
        "",
    ]


@pytest.mark.parametrize("thinking", FORMATS, ids=lambda f: f.open)
def test_every_format_is_detected_and_split(thinking: ThinkingFormat) -> None:
    assert detect(f"{{{{ '{thinking.open}' }}}} {thinking.close}") == thinking
    assert split(f"{thinking.open}a{thinking.close}b", thinking) == ("a", "b")


def test_template_that_does_not_think_has_no_format() -> None:
    assert detect("{{ messages[0].content }}") is None
    assert detect(None) is None


def test_closing_tag_alone_tells_a_thinking_template() -> None:
    assert detect("{% if '</think>' in content %}{% endif %}") == THINK


def test_prompt_that_opens_a_thought_starts_inside() -> None:
    assert starts_inside(THINK, "<|im_start|>assistant\n<think>\n")
    assert not starts_inside(THINK, "<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not starts_inside(THINK, "<|im_start|>assistant\n")
