"""A build against itself (A/A): said before it is measured, and ended by itself."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Outcome, write_spec
from made_reports import build, comparison, run_ab_giving

from opduel.commands import builds, fleet
from opduel.harness.run_request import RunRequest
from opduel.records import Report

SIDES = ("--control", "a", "--treatment", "b")
SAID = "both sides are the same build (A/A), so that what differs is noise"


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


@pytest.mark.parametrize(
    ("words", "budget_s", "said"),
    [
        ((), 70.0, f"{SAID}; measuring takes at most 1 min 10 s: --time_budget SECONDS changes that\n"),
        (("--time_budget", "500"), 500.0, f"{SAID}\n"),
        (("--max_rounds", "9"), None, f"{SAID}\n"),
        (("--inject", "5%"), None, ""),
    ],
)
def test_it_is_told_and_bounded_unless_the_options_bound_it(
    home: Path,
    requests: list[RunRequest],
    run: Callable[..., Outcome],
    words: tuple[str, ...],
    budget_s: float | None,
    said: str,
) -> None:
    outcome = run("-b", write_spec(home), *SIDES, *words)
    assert [request.configuration.time_budget for request in requests] == [budget_s]
    assert said in outcome.err
    assert ("A/A" in outcome.err) == bool(said)


def test_builds_that_differ_have_all_the_time(
    home: Path, requests: list[RunRequest], run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "resolve_build", lambda requested, *_: replace(build(requested), digest=requested))
    outcome = run("-b", write_spec(home), *SIDES)
    assert [request.configuration.time_budget for request in requests] == [None]
    assert "A/A" not in outcome.err
