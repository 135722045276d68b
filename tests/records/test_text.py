"""Texts for people: one printable line, with what is too long to be read left out."""

from hypothesis import given
from hypothesis import strategies as st

from records import UsageError
from records.text import LONGEST_LINE, clipped, one_line, quoted


def test_the_middle_is_what_is_left_out() -> None:
    assert clipped("abcdefghij", 10) == "abcdefghij"
    assert clipped("abcdefghijk", 8) == "abc...jk"
    assert quoted("x" * 20_000) == f"'{'x' * 38}...{'x' * 37}'"
    assert quoted("a\tb") == "'a\\tb'"


def test_an_error_is_one_line_of_bounded_length() -> None:
    assert str(UsageError("one\ntwo  three\x1b[31m")) == "one two  three\\x1b[31m"
    long = str(UsageError(f"--threshold {'x' * 20_000}: is no number: give one"))
    assert long.startswith("--threshold xxx")
    assert long.endswith("xxx: is no number: give one")
    assert len(long) < 150


@given(st.text(max_size=3000))
def test_any_text_becomes_one_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line) <= LONGEST_LINE
    assert one_line(line) == line
