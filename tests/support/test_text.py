"""Texts for people: one printable line, with what is too long to be read left out."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.records import UsageError
from opduel.support.text import LONGEST_LINE, clipped, counted, duration, one_line, without_controls


def test_the_middle_is_what_is_left_out() -> None:
    assert clipped("abcdefghij", 10) == "abcdefghij"
    assert clipped("abcdefghijk", 8) == "abc...jk"


def test_a_number_agrees_with_its_noun() -> None:
    assert [counted(number, "case") for number in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]


def test_durations() -> None:
    seconds = (0, 0.25, 59.96, 60, 192, 3725, 7200, math.nan, None)
    words = ["0 s", "0.25 s", "1 min", "1 min", "3 min 12 s", "1 h 2 min", "2 h", "-", "-"]
    assert list(map(duration, seconds)) == words


def test_an_error_is_one_line_of_bounded_length() -> None:
    assert str(UsageError("one\ntwo  three\x1b[31m")) == "one two  three\\x1b[31m"
    long = str(UsageError(f"--threshold {'x' * 20_000}: is no number: give one"))
    assert long.startswith("--threshold xxx")
    assert long.endswith("xxx: is no number: give one")
    assert len(long) < 150
    blanks = str(UsageError(f"--operators {'a b' * 9_000!r}: no such case"))
    assert blanks == f"--operators '{('a b' * 13)[:39]}...{('a b' * 13)[-38:]}': no such case"
    ours = f"the users can't {'say ' * 60} that it isn't so"
    assert str(UsageError(ours)) == ours, "an apostrophe is no quotation mark"


@given(st.text(max_size=3000))
def test_any_text_becomes_one_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line) <= LONGEST_LINE
    assert one_line(line) == line


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a \x1b[31mred\x1b[0m one", "a red one"),
        ("\x1b[1;38;5;196mbold\x1b[m", "bold"),
        ("progress\x1b[2K\x1b[?25h done", "progress done"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bascii\x1b7 saved\x1bc", "ascii saved"),
        ("bell\x07 null\x00 tab\t line\n return\r", "bell null tab\t line\n return"),
        ("cut off \x1b[31", "cut off [31"),
        ("[31m is text without ESC", "[31m is text without ESC"),
    ],
)
def test_escape_sequences_are_removed_whole(text: str, plain: str) -> None:
    assert without_controls(text) == plain


@pytest.mark.parametrize("start", ["\x9d", "\x1b]", "\x1b[", "\x90"])
def test_sequences_that_never_end_take_no_more_than_their_length(start: str) -> None:
    began = time.process_time()
    without_controls(start * 50_000)
    assert time.process_time() - began < 2
