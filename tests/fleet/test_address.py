"""Addresses of a fleet and of its dashboard, and the choice of hosts."""

import argparse
from pathlib import Path

import pytest

from opduel.fleet.address import DashboardAddress, FleetChoice, describe_dashboard, parse_address, parse_dashboard
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


@pytest.mark.parametrize(
    ("text", "host", "port", "is_open"),
    [
        ("8787", "127.0.0.1", 8787, False),
        ("0", "127.0.0.1", 0, False),
        ("localhost:80", "localhost", 80, False),
        ("127.0.0.2:80", "127.0.0.2", 80, False),
        ("0.0.0.0:8787", "0.0.0.0", 8787, True),
        ("bench-1:8787", "bench-1", 8787, True),
    ],
)
def test_addresses_of_dashboards(text: str, host: str, port: int, is_open: bool) -> None:
    address = parse_dashboard(text)
    assert (address.host, address.port, address.is_open) == (host, port, is_open)


@pytest.mark.parametrize("text", ["", ":8787", "here", "a:b:1", "65536", "http://a:1"])
def test_what_is_no_address_of_a_dashboard(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="give a port, as 8787, or HOST:PORT"):
        parse_dashboard(text)


@pytest.mark.parametrize(
    ("host", "scheduler", "words"),
    [
        ("127.0.0.1", "tls://127.0.0.1:8786", "http://127.0.0.1:8787/status"),
        (
            "127.0.0.1",
            "tls://bench-1:8786",
            "http://127.0.0.1:8787/status on the scheduler's machine (ssh -L 8787:127.0.0.1:8787 bench-1)",
        ),
        ("0.0.0.0", "tls://bench-1:8786", "http://bench-1:8787/status"),
        ("10.0.0.1", "tls://bench-1:8786", "http://10.0.0.1:8787/status"),
    ],
)
def test_what_a_client_is_told(host: str, scheduler: str, words: str) -> None:
    assert describe_dashboard({"host": host, "port": 8787}, parse_address(scheduler)) == words


def test_one_on_all_addresses_is_linked_by_the_name_of_its_machine() -> None:
    assert DashboardAddress("0.0.0.0", 1).link("bench-1") == "http://bench-1:1/status"
    assert DashboardAddress("10.0.0.1", 1).link("bench-1") == "http://10.0.0.1:1/status"
