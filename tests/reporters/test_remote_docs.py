"""docs/how-to/remote.md is right on the form of a place, the token's places, each answer, the columns."""

import re
from pathlib import Path

import pytest

from opduel.commands.config import UNASKED
from opduel.commands.sending import COLUMNS
from opduel.reporters.remote.place import FORM, LONGEST_CATEGORY, Place, parse_place
from opduel.reporters.remote.post import Kind, Payload, Waits, _understood
from opduel.reporters.remote.token import VARIABLE

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "remote.md").read_text(encoding="utf-8")
OUTCOMES: dict[str, Kind] = {
    "leaves the spool": "stored",
    "marked as refused": "refused",
    "waits; sending stops": "stuck",
    "is retried": "again",
}


def rows() -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]


def meaning(status: int) -> Kind:
    payload = Payload(Place("https://results.example.org/api/v1/reports", "nightly"), "run 1", b"")
    return _understood(payload, status, "", {}, '{"run_id": "run 1"}', None).kind


def test_every_answer_means_what_is_written() -> None:
    found: dict[int, Kind] = {}
    for cells in rows():
        (kind,) = [kind for words, kind in OUTCOMES.items() if words in cells[-1]] or [None]
        if kind is not None:
            found |= dict.fromkeys(map(int, re.findall(r"`(\d{3})`", cells[0])), kind)
    assert len(found) >= 14
    assert {status: meaning(status) for status in found} == found
    assert {meaning(status) for status in (418, 405, 451)} == {"refused"}
    assert {meaning(status) for status in (500, 501, 502, 503, 504, 507, 599)} == {"again"}
    assert {meaning(status) for status in (202, 204, 206, 301, 304, 399)} == {"stuck"}


def test_places_and_times_are_as_written() -> None:
    waits = Waits()
    assert f'`"{FORM}"`' in TEXT
    assert f"at most {LONGEST_CATEGORY} characters" in TEXT
    assert f"no word for {waits.read_s:g} s" in TEXT
    assert f"about {waits.first_pause_s:g}, {2 * waits.first_pause_s:g}, {4 * waits.first_pause_s:g}... " in TEXT
    assert f"... {waits.longest_pause_s:g} seconds" in TEXT
    assert waits.whole_s == 60
    assert {VARIABLE, *UNASKED} <= {cells[0].strip("`") for cells in rows()}


def test_the_columns_are_documented() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", TEXT.partition("## Send what waits")[2], flags=re.MULTILINE)
    assert documented == list(COLUMNS)


@pytest.mark.parametrize("place", sorted(set(re.findall(r'--remote_reporter "(.*?)"', TEXT))))
def test_examples_are_places(place: str) -> None:
    assert parse_place(place).endpoint.startswith("https://")
