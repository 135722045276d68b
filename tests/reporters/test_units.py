"""Numbers and texts as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from opduel.reporters.text import escaped, fold, printable, shorten
from opduel.reporters.units import (
    human_change,
    human_changes,
    human_interval,
    human_share,
    human_size,
    human_value,
    human_values,
    scale_of,
)

texts = st.text(st.characters(codec="utf-8"), max_size=120)


@pytest.mark.parametrize(
    ("value", "unit", "want"),
    [
        (0.5, "ns", "0.50 ns"),
        (14.8, "ns", "14.8 ns"),
        (999.4, "ns", "999 ns"),
        (999.6, "ns", "1.00 us"),
        (34_567.0, "ns", "34.6 us"),
        (9_999_999.0, "ns", "10.0 ms"),
        (1.5e9, "ns", "1.50 s"),
        (2e12, "ns", "2000 s"),
        (1e15, "ns", "1e+06 s"),
        (12_345.6, "kB", "12346 kB"),
        (1_234_567.0, "kB", "1.23e+06 kB"),
        (3.0, "", "3"),
        (999.4, "instructions", "999 instr"),
        (999.6, "instructions", "1.00 k instr"),
        (236_358.9, "instructions", "236 k instr"),
        (6.7e6, "instructions", "6.70 M instr"),
        (999.6e6, "instructions", "1.00 G instr"),
        (5e13, "instructions", "5e+04 G instr"),
        (None, "ns", "-"),
        (math.nan, "ns", "-"),
    ],
)
def test_values(value: float | None, unit: str, want: str) -> None:
    assert human_value(value, unit) == want


@pytest.mark.parametrize(
    ("value", "unit", "want"),
    [
        (0.5, "ns", (1.0, "ns")),
        (999.0, "ns", (1.0, "ns")),
        (-1e3, "ns", (1e3, "us")),
        (2e12, "ns", (1e9, "s")),
        (5e6, "instructions", (1e6, "M instr")),
        (5e13, "instructions", (1e9, "G instr")),
        (3 * 2**20, "bytes", (2**20, "MiB")),
        (7.0, "tol", (1.0, "tol")),
        (None, "ns", (1.0, "ns")),
        (math.inf, "bytes", (1.0, "B")),
    ],
)
def test_scales(value: float | None, unit: str, want: tuple[float, str]) -> None:
    assert scale_of(value, unit) == want


@pytest.mark.parametrize(
    ("ratio", "want"),
    [
        (1.053, "+5.3 %"),
        (0.5, "-50.0 %"),
        (1.0, "+0.0 %"),
        (0.99999, "+0.0 %"),
        (10.5, "+950.0 %"),
        (12.34, "x12.3"),
        (1e6, ">x999"),
        (0.0, "-100.0 %"),
        (None, "-"),
        (math.inf, "-"),
    ],
)
def test_changes(ratio: float | None, want: str) -> None:
    assert human_change(ratio) == want


def test_other_numbers() -> None:
    assert human_interval((1.041, 1.064)) == "[+4.1, +6.4]"
    assert human_interval((0.9, math.inf)) == "[-10.0, -]"
    assert human_interval(None) == "-"
    assert human_changes(11.9, (10.32, 13.8)) == ("x11.9", "[x10.3, x13.8]")
    assert human_changes(10.2, (9.8, 12.04)) == ("x10.2", "[x9.8, x12]")
    assert human_changes(1.053, (1.041, 1.064)) == ("+5.3 %", "[+4.1, +6.4]")
    assert human_values(0.0, 3.0, "copies") == "0 -> 3"
    assert human_values(0.0, 4096.0, "bytes") == "0 B -> 4 KiB"
    assert [human_share(share) for share in (0.021, 12.0, None, math.inf)] == ["2.1 %", ">999 %", "-", "-"]
    assert human_share(1e-9) == "<0.01 %"
    small = (0.0025, 0.0004, 0.005, 0.009, 0.0099, 0.01, 0.0)
    assert [human_share(share) for share in small] == ["0.25 %", "0.04 %", "0.5 %", "0.9 %", "0.99 %", "1.0 %", "0.0 %"]
    assert [human_size(size) for size in (1000, 1008 * 2**30, 1023 * 1024)] == ["1000 B", "1008 GiB", "1023 KiB"]
    assert [human_size(size) for size in (0, 1536, 25276510208, None)] == ["0 B", "1.5 KiB", "23.5 GiB", "-"]


@given(text=texts, width=st.integers(3, 40))
def test_shortened_texts_fit_and_keep_their_ends(text: str, width: int) -> None:
    short = shorten(printable(text), width)
    assert cell_len(short) <= width
    assert short == printable(text) or "..." in short


def test_what_is_shortened_loses_its_middle() -> None:
    assert shorten("/home/me/environments/bin/python", 15) == "/home/...python"


@given(text=texts, width=st.integers(2, 40))
def test_folding_breaks_no_word(text: str, width: int) -> None:
    clean = printable(text)
    lines = fold(clean, width)
    assert all(cell_len(line) <= width or " " not in line for line in lines)
    assert " ".join(lines).split() == clean.split()


@given(text=st.text())
def test_an_escaped_text_is_one_field_that_can_be_read_back(text: str) -> None:
    field = escaped(text)
    assert field.isprintable()
    back = "".join(char if ord(char) < 128 else f"\\U{ord(char):08x}" for char in field)
    assert back.encode("ascii").decode("unicode_escape") == text
