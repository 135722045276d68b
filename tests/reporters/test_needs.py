"""What undecided cases need: time, rounds or a threshold, as an option, said once for all that need the same."""

from dataclasses import replace
from typing import Any

import pytest
import report_samples as samples

from opduel.records import Comparison, Effort, Forecast, Report
from opduel.reporters.html.page import to_html
from opduel.reporters.markdown import to_markdown
from opduel.reporters.needs import needs_of, time_line
from opduel.reporters.screen import render

NOISY = "may be more than 2 % slower or faster"
BUDGET = {"configuration": {"time_budget": 60.0}, "complete": False, "stop_reason": "out of time"}


def undecided(case: str, forecast: Forecast | None, **changes: Any) -> Comparison:
    figures = {"note": NOISY, "ci": (0.97, 1.045), "rounds": 8, **changes}
    return samples.comparison(case, "inconclusive", 1.0, forecast=forecast, **figures)


def of_a_budget(*comparisons: Comparison, settles: int) -> Report:
    count = sum(comparison.forecast is not None for comparison in comparisons)
    return samples.report(comparisons, forecast={"time_budget": 180.0, "settles": settles, "open": count}, **BUDGET)


def test_cases_that_need_the_same_say_it_once() -> None:
    cases = [undecided(f"case{number:02d}", Forecast(0.9, 3, 90.0 + number)) for number in range(20)]
    report = of_a_budget(*cases, settles=20)
    text = " ".join(render(report).split())
    assert f"20 cases: {NOISY}; need about 1 min 50 s more: --time_budget 180" in text
    assert text.count("--time_budget") == 1
    assert time_line(report) == "20 of 20 undecided cases need about 1 min 50 s more: --time_budget 180"
    assert to_markdown(report).count("--time\\_budget 180") == 21, "each row, and the run"
    assert to_html(report).count("needs about 1 min 50 s more: --time_budget 180") >= 20


def test_a_case_that_needs_longer_than_most_says_how_long() -> None:
    cases = [undecided(f"case{number}", Forecast(0.9, 3, 40.0)) for number in range(4)]
    report = of_a_budget(*cases, undecided("slow", Forecast(0.9, 20, 600.0)), settles=4)
    needs = needs_of(report)
    assert needs["case0"] == "about 40 s more: --time_budget 180"
    assert needs["slow"] == "about 10 min more: --time_budget 740"


def test_without_a_budget_the_run_has_to_end_and_without_times_it_is_not_said_how_long() -> None:
    case = undecided("a", Forecast(0.9, 3, 40.0))
    forecast = {"time_budget": 180.0, "settles": 1, "open": 1}
    stopped = samples.report([case], complete=False, forecast=forecast)
    assert needs_of(stopped) == {"a": "about 40 s more: let the run end"}
    assert needs_of(samples.report([case], fleet={"hosts": []})) == {"a": "about 40 s more"}
    unknown = undecided("a", Forecast(None, 8))
    assert needs_of(samples.report([unknown], **BUDGET)) == {"a": "more time: a larger --time_budget"}


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({}, "a threshold of 5 %: --threshold 5%"),
        ({"rounds": 50}, "a threshold of 5 %: --threshold 5%, or more rounds: --max_rounds 100"),
        ({"suspected": "regressed", "ci": (1.03, 1.2)}, "more rounds: --max_rounds 100"),
        ({"ci": (0.3, 4.0)}, "a quieter machine"),
        ({"held_back": "regressed"}, "a quieter machine"),
        ({"metric": "instructions", "unit": "instructions", "rounds": 50}, "a threshold of 5 %: --threshold 5%"),
    ],
)
def test_what_time_does_not_decide_needs_another_threshold_or_more_rounds(changes: dict[str, Any], needs: str) -> None:
    for forecast in (None, Forecast(0.3, None)):
        assert needs_of(samples.report([undecided("a", forecast, **changes)])) == {"a": needs}


def test_decided_cases_need_nothing() -> None:
    report = samples.report([case for case in samples.EVERY_VERDICT if case.verdict != "inconclusive"])
    assert needs_of(report) == {}


def test_of_many_cases_without_figures_a_few_have_a_row() -> None:
    bare = {"note": "not measured before the run ended", "ci": None, "rounds": 0, "control": None}
    cases = [undecided(f"case{number:02d}", Forecast(None, 8, 40.0), **bare) for number in range(80)]
    text = render(of_a_budget(*cases, settles=80))
    assert [f"\ncase{number:02d} " in text for number in (0, 2, 3, 79)] == [True, True, False, False]
    assert "80 cases (77 not shown): not measured before the run ended; need about 40 s" in " ".join(text.split())


def test_the_reason_of_a_case_takes_two_lines_at_most() -> None:
    effort = Effort(4, 5, 0.01, 0.02, 0.03, 0.1, 0.2, 0.3, 0.4, 5.0)
    case = undecided("a", None, rounds=50, note=f"{NOISY}; all 50 rounds are used", effort=effort)
    lines = render(samples.report([replace(case, operator="x")])).splitlines()
    row = next(number for number, line in enumerate(lines) if line.startswith("a "))
    assert lines[row + 3].startswith("interval: where the true change lies, in %, at least 95 % sure")
