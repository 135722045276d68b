"""Where the dashboard is, and how people are told to reach it."""

import argparse

import pytest

from opduel.fleet.address import DashboardAddress, describe_dashboard, parse_address, parse_dashboard


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
def test_addresses(text: str, host: str, port: int, is_open: bool) -> None:
    address = parse_dashboard(text)
    assert (address.host, address.port, address.is_open) == (host, port, is_open)


@pytest.mark.parametrize("text", ["", ":8787", "here", "a:b:1", "65536", "http://a:1"])
def test_what_is_no_address(text: str) -> None:
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
