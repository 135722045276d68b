"""A build against itself (A/A): said before it is measured."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome, write_spec
from made_reports import build, comparison, run_ab_giving

from opduel.commands import builds, fleet
from opduel.harness.run_request import RunRequest
from opduel.records import Report

SIDES = ("--control", "a", "--treatment", "b")


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """Nothing is built or measured; filled with what would be."""
    requests: list[RunRequest] = []

    def run_ab(request: RunRequest, on_progress: object) -> Report:
        requests.append(request)
        return run_ab_giving(comparison("unchanged"))(request)

    monkeypatch.setattr(builds, "resolve_build", lambda requested, *_: build(requested))
    monkeypatch.setattr(fleet, "run_ab", run_ab)
    return requests


@pytest.mark.parametrize("words", [(), ("--inject", "5%")])
def test_it_is_told_unless_it_is_meant(
    home: Path, requests: list[RunRequest], run: Callable[..., Outcome], words: tuple[str, ...]
) -> None:
    outcome = run("-b", write_spec(home), *SIDES, *words)
    assert len(requests) == 1
    assert ("both sides are the same build (A/A), so that what differs is noise\n" in outcome.err) == (not words)
