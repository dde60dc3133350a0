"""TextStream against a reference that sees the whole text at once."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atelico.decoding.text import TextDelta, TextStream
from atelico.models.thinking import ThinkingFormat, ThinkSplitter, split

THINK = ThinkingFormat("<think>", "</think>")
# Few characters, so that stop strings and tags come up often; among them 2, 3 and 4 bytes long ones.
TEXTS = st.text(st.sampled_from("ab\n é木🗝️<>/thinkк"), max_size=40)
STOPS = st.lists(st.text(st.sampled_from("ab\n é🗝<k"), min_size=1, max_size=4), max_size=4)
PIECES = st.sampled_from(["a", "b", "ab", "<think>", "</think>", "<th", "ink>", "</", "\n", "\n\n", " ", "é", "🗝️"])


@st.composite
def tokenised(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS, broken: bool = False) -> list[bytes]:
    """A text cut at any bytes, so inside characters too; with `broken`, bytes that are no UTF-8 between."""
    data = draw(texts).encode()
    if broken:
        data = b"".join(draw(st.lists(st.one_of(st.binary(max_size=3), texts.map(str.encode)), max_size=6)))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def run(stream: TextStream, tokens: list[bytes]) -> tuple[list[TextDelta], int]:
    """The deltas, and how many tokens were fed before a stop string ended the text."""
    deltas = []
    for n_fed, token in enumerate(tokens, 1):
        deltas.append(stream.feed(token))
        if stream.stopped:
            return [*deltas, stream.finish()], n_fed
    return [*deltas, stream.finish()], len(tokens)


def expected(tokens: list[bytes], stops: list[str], thinking: bool, inside: bool) -> tuple[str, str, bool]:
    """(answer, reasoning, stopped): the first token that completes a stop string decides."""

    def parted(text: str, final: bool) -> tuple[str, str]:
        if not thinking:
            return "", text
        splitter = ThinkSplitter(THINK, inside=inside)
        reasoning, answer = splitter.feed(text)
        last = splitter.finish() if final else ("", "")
        return reasoning + last[0], answer + last[1]

    for n in range(1, len(tokens) + 2):
        final = n > len(tokens)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        reasoning, answer = parted(decoder.decode(b"".join(tokens[:n]), final=final), final)
        found = [answer.find(stop) for stop in stops if stop in answer]
        if found:
            return answer[: min(found)], reasoning, True
    return answer, reasoning, False


@given(tokenised(), STOPS)
@example("a🗝️b".encode()[:3].split(b"x"), ["b"])
def test_joined_deltas_are_the_text_before_the_first_stop_string(tokens: list[bytes], stops: list[str]) -> None:
    stream = TextStream(stops)
    deltas, _ = run(stream, tokens)
    answer, _, stopped = expected(tokens, stops, thinking=False, inside=False)
    assert "".join(delta.content for delta in deltas) == answer
    assert stream.stopped == stopped


@given(tokenised(broken=True), STOPS)
def test_bytes_that_are_no_utf8_come_out_as_in_one_piece(tokens: list[bytes], stops: list[str]) -> None:
    deltas, _ = run(TextStream(stops), tokens)
    assert "".join(delta.content for delta in deltas) == expected(tokens, stops, thinking=False, inside=False)[0]


@given(tokenised(), STOPS)
def test_no_delta_leaks_a_stop_string_or_half_a_character(tokens: list[bytes], stops: list[str]) -> None:
    deltas, _ = run(TextStream(stops), tokens)
    sent = ""
    for delta in deltas:
        sent += delta.content
        assert not any(stop in sent for stop in stops)
        assert "�" not in delta.content


@given(tokenised(st.lists(PIECES, max_size=12).map("".join)), STOPS, st.booleans())
def test_thoughts_and_answer_are_parted_as_in_the_whole_text(
    tokens: list[bytes], stops: list[str], inside: bool
) -> None:
    stream = TextStream(stops, ThinkSplitter(THINK, inside=inside))
    deltas, _ = run(stream, tokens)
    answer, reasoning, stopped = expected(tokens, stops, thinking=True, inside=inside)
    assert "".join(delta.content for delta in deltas) == answer
    assert "".join(delta.reasoning for delta in deltas) == reasoning
    assert stream.stopped == stopped
    if not stopped:
        assert (reasoning or None, answer) == split(b"".join(tokens).decode(), THINK, inside=inside)


@given(tokenised(broken=True), STOPS)
def test_tokens_are_counted_when_they_begin_before_the_stop_string(tokens: list[bytes], stops: list[str]) -> None:
    stream = TextStream(stops)
    deltas, n_fed = run(stream, tokens)
    if not stream.stopped:
        assert stream.n_tokens == len(tokens)
        return
    kept = len("".join(delta.content for delta in deltas))
    begins = [len(_decoded(tokens[:i])) for i in range(n_fed)]
    assert stream.n_tokens == sum(begin < kept for begin in begins)


@pytest.mark.parametrize("thinking", [False, True])
@given(data=st.data(), stops=STOPS)
def test_covered_tokens_only_grow_and_never_pass_the_returned_ones(
    thinking: bool, data: st.DataObject, stops: list[str]
) -> None:
    pieces = st.lists(PIECES, max_size=12).map("".join) if thinking else TEXTS
    tokens = data.draw(tokenised(pieces, broken=not thinking))
    stream = TextStream(stops, ThinkSplitter(THINK) if thinking else None)
    deltas, _ = run(stream, tokens)
    covered = [delta.n_tokens for delta in deltas]
    assert covered == sorted(covered)
    assert covered[-1] == stream.n_tokens


@given(tokenised())
def test_without_stop_strings_only_an_unfinished_character_is_held_back(tokens: list[bytes]) -> None:
    stream = TextStream()
    sent = ""
    for i, token in enumerate(tokens, 1):
        sent += stream.feed(token).content
        assert sent == _decoded(tokens[:i])


def test_a_half_stop_string_is_released_once_it_cannot_become_one() -> None:
    stream = TextStream(["\nUser:"])
    assert stream.feed(b"Hi\nUs").content == "Hi"
    assert stream.feed(b"es a rope").content == "\nUses a rope"


def test_of_overlapping_stop_strings_the_one_that_begins_first_cuts() -> None:
    stream = TextStream(["\nUser:", "\nUser"])
    assert [stream.feed(token).content for token in (b"Go.", b"\n", b"User")] == ["Go.", "", ""]
    assert stream.stopped
    assert stream.n_tokens == 1


def test_a_stop_string_inside_thoughts_is_not_looked_for() -> None:
    stream = TextStream(["key"], ThinkSplitter(THINK))
    deltas, _ = run(stream, [b"<think>the key", b" is here</think>", b"Take the key", b" now"])
    assert "".join(delta.reasoning for delta in deltas) == "the key is here"
    assert "".join(delta.content for delta in deltas) == "Take the "


def test_a_character_that_never_comes_whole_is_replaced_at_the_end() -> None:
    stream = TextStream()
    assert stream.feed("木".encode()[:2]).content == ""
    assert stream.finish().content == "�"


def _decoded(tokens: list[bytes]) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(tokens))


def test_a_token_that_ends_inside_a_character_is_covered_only_with_the_character() -> None:
    stream = TextStream(["éx"])
    covered = [stream.feed(token).n_tokens for token in (b"a", b"\xc3", b"\xa9", b"x")]
    assert covered == [1, 1, 1, 1]
    assert stream.n_tokens == 1


def test_a_token_that_may_open_a_thought_is_covered_only_once_that_is_decided() -> None:
    stream = TextStream(["<thx"], ThinkSplitter(THINK))
    assert [stream.feed(token).n_tokens for token in (b"<th", b"x")] == [0, 0]
