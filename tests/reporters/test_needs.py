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
    report = of_a_budget(*cases, undecided("slow", Forecast(0.9, 20, 390.0)), settles=4)
    needs = needs_of(report)
    assert needs["case0"] == "about 40 s more: --time_budget 180"
    assert needs["slow"] == "about 6 min 30 s more: --time_budget 530"


def that_goes_on(further: float, *comparisons: Comparison, **run: Any) -> Report:
    """The second start of a run, each with a time budget of 60 s."""
    forecast = {"time_budget": 400.0, "further": further, "settles": 1, "open": len(comparisons)}
    budget = {**BUDGET, "configuration": {"time_budget": 120.0}, "earlier_budget": 60.0}
    return samples.report(comparisons, forecast=forecast, **{**budget, **run})


def test_where_a_further_start_goes_on_the_same_command_is_enough_or_the_budget_comes_on_top() -> None:
    """A run said that it needs --time_budget 30, which began again, and that to repeat the command measures on."""
    case = undecided("a", Forecast(0.9, 3, 40.0))
    report = that_goes_on(60.0, case)
    assert time_line(report) == "1 undecided case needs about 40 s more: repeat the command"
    text = " ".join(render(report).split())
    assert "needs about 40 s more: repeat the command" in text
    assert "time_budget" not in text
    longer = that_goes_on(70.0, case)
    assert needs_of(longer) == {"a": "about 1 min 10 s more: repeat the command with --time_budget 70"}


@pytest.mark.parametrize(
    ("configuration", "fewer"),
    [
        ({"suite": "benchmarks"}, "choose cases with --bench instead"),
        ({"statement": ["f(x)", "g(x)"]}, "measure fewer lines of code instead"),
        ({}, "choose cases with --operators instead"),
    ],
)
def test_where_ten_budgets_are_not_enough_fewer_cases_are(configuration: dict[str, Any], fewer: str) -> None:
    cases = [undecided(name, Forecast(0.9, 3, 6000.0)) for name in "ab"]
    forecast = {"time_budget": 6180.0, "settles": 2, "open": 2}
    budget = {**BUDGET, "configuration": {"time_budget": 180.0, **configuration}}
    report = samples.report(cases, forecast=forecast, **budget)
    assert time_line(report) == f"2 of 2 undecided cases need about 1 h 40 min more: {fewer}"
    alone = samples.report(cases[:1], forecast={**forecast, "settles": 1, "open": 1}, **budget)
    assert needs_of(alone) == {"a": "about 1 h 40 min more: --time_budget 6180"}


def test_of_cases_that_no_round_reached_no_time_is_foretold() -> None:
    bare = {"note": "not measured before the run ended", "ci": None, "rounds": 0, "control": None}
    cases = [undecided(name, Forecast(None, 8), **bare) for name in "ab"]
    budget = {**BUDGET, "configuration": {"time_budget": 180.0, "suite": "benchmarks"}}
    report = samples.report(cases, **budget)
    assert needs_of(report)["a"] == "more time: a larger --time_budget, or choose cases with --bench"
    assert time_line(report) == ""
    further = samples.report(cases[:1], forecast={"further": 180.0, "settles": 0, "open": 1}, **budget)
    assert needs_of(further) == {"a": "more time: repeat the command with --time_budget 540"}
    assert time_line(further) == ""


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
