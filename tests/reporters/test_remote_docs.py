"""docs/how-to/remote.md is right on the token's places, the answers of a server, and addresses."""

import re
from pathlib import Path

import pytest

from opduel.commands.config import UNASKED
from opduel.reporters.http_request import Reply
from opduel.reporters.options import TOKEN_VARIABLE
from opduel.reporters.remote.place import Place, parse_place
from opduel.reporters.remote.post import Kind, Payload, _understood

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "remote.md").read_text(encoding="utf-8")
KINDS: dict[str, Kind] = {
    "leaves the spool": "stored",
    "marked as refused": "refused",
    "waits; sending stops": "stuck",
    "is retried": "again",
}


def rows() -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]


def kind_of(status: int) -> Kind:
    payload = Payload(Place("https://results.example.org/api/v1/reports", "nightly"), "run 1", b"")
    return _understood(payload, Reply(status, "", {}, '{"run_id": "run 1"}'), None).kind


def test_every_answer_means_what_the_page_says() -> None:
    documented: dict[int, Kind] = {}
    for cells in rows():
        for words, kind in KINDS.items():
            if words in cells[-1]:
                documented |= dict.fromkeys(map(int, re.findall(r"`(\d{3})`", cells[0])), kind)
    assert len(documented) >= 14
    assert {status: kind_of(status) for status in documented} == documented
    assert {kind_of(status) for status in (418, 405, 451)} == {"refused"}
    assert {kind_of(status) for status in (500, 501, 502, 503, 504, 507, 599)} == {"again"}
    assert {kind_of(status) for status in (202, 204, 206, 301, 304, 399)} == {"stuck"}


def test_places_of_the_token_are_documented() -> None:
    assert {TOKEN_VARIABLE, *UNASKED} <= {cells[0].strip("`") for cells in rows()}


@pytest.mark.parametrize("place", sorted(set(re.findall(r'--remote_reporter "(.*?)"', TEXT))))
def test_examples_are_places(place: str) -> None:
    assert parse_place(place).endpoint.startswith("https://")
