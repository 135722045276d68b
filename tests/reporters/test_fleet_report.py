"""A report of a fleet: each row with its host, and the hosts above."""

from dataclasses import replace

from report_samples import EVERY_VERDICT, report

from opduel.reporters.run_text import hosts_text
from opduel.reporters.screen import render

HOSTS = [{"name": "bench-1", "cases": 3, "valid": True}, {"name": "bench-2", "cases": 3, "valid": False}]


def test_rows_have_their_hosts() -> None:
    rows = [replace(comparison, host=f"bench-{1 + number % 2}") for number, comparison in enumerate(EVERY_VERDICT)]
    fleet_report = report(rows, fleet={"hosts": HOSTS})
    text = render(fleet_report)
    assert "fleet      bench-1 3 cases, bench-2 3 cases (disturbed)\n" in text
    lines = {line.split()[0]: line.split()[-1] for line in text.splitlines() if "bench-" in line}
    assert (lines["steady"], lines["faster"]) == ("bench-1", "bench-2")
    assert max(map(len, text.splitlines())) <= 80


def test_a_run_on_one_host_says_nothing_of_hosts() -> None:
    assert hosts_text(report()) == ""
    assert "bench" not in render(report())
    assert "fleet " not in render(report())
