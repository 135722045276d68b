"""Addresses of a fleet, and the choice of hosts."""

from pathlib import Path

import pytest

from opduel.fleet.address import FleetChoice, parse_address
from opduel.records import UsageError


@pytest.mark.parametrize("text", ["tls://bench:8786", "tcp://10.0.0.1:1", "tls://[::1]:8786", "local:1", "local:64"])
def test_addresses(text: str) -> None:
    address = parse_address(text)
    assert address.text == text
    assert address.is_encrypted == text.startswith("tls")
    assert address.workers == (int(text[6:]) if text.startswith("local") else None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bench:8786",
        "tls://bench",
        "tls://bench:99999",
        "http://bench:80",
        "local:",
        "local:0",
        "local:65",
        "local:x",
        "local:²",
        "local:" + 5000 * "9",
        "tls://a:1/b",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match=r"--fleet .*give "):
        parse_address(text)


def test_which_hosts_are_wanted() -> None:
    address = parse_address("local:1")
    tagged = FleetChoice(address, Path(), tags=("gpu", "fast"))
    assert tagged.wants("a", frozenset({"gpu", "fast", "x"}))
    assert not tagged.wants("a", frozenset({"gpu"}))
    named = FleetChoice(address, Path(), hosts=("a", "b"), excluded=("b",))
    assert [name for name in "abc" if named.wants(name, frozenset())] == ["a"]
    assert named.words == "a host with a name among a, b and another name than b"
