"""What calibrate.py prints of recorded runs, and decides again from their samples; harness.py is a stand-in here."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake_harness import FakeHarness, call, report, samples, with_samples
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import calibrate
from benchmarks.calibration_data import CalibrationRun, PlannedRun, decide_again, read_runs
from benchmarks.calibration_table import mean_interval, missed_lines, overall_lines, short_table
from opduel.comparator.looks import FIRST_LOOK
from opduel.records import PairSample, Report, RunConfiguration, Verdict
from opduel.records.run_record import RunRecord

NOISE = (0.001, -0.002, 0.0015, -0.0005, 0.0, 0.001, -0.001, 0.0005)
PAGE = calibrate.ROOT / "docs" / "explanation" / "proof.md"
BLOCK_OF_PAGE = re.compile(r"<!-- calibrate.py ([^\n]*): begin -->\n(.*?)<!-- end -->", re.S)


def two_stages(case_id: str, ratios: list[float]) -> tuple[PairSample, ...]:
    """Return samples of which the first look is screening, and the others confirm."""
    return samples(case_id, ratios[:FIRST_LOOK]) + samples(case_id, ratios[FIRST_LOOK:], "confirmation")


def disturbed(inject: float, threshold: float, rounds: int = len(NOISE)) -> Report:
    """Return held-back changes of 35 %: eight samples are enough for the t test, and too few for signed ranks."""
    ratios = ([0.3 + noise for noise in NOISE] * 6)[:rounds]
    original = report(inject, threshold, validity={"valid": False, "reasons": ["busy"]})
    by_case = {case_id: two_stages(case_id, ratios) for case_id in ("c0", "c1")}
    return with_samples(original, by_case, verdict="inconclusive", held_back="regressed")


def test_single_pairs_are_counted_in_cases_that_were_not_slowed(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.answer = lambda inject, threshold: with_samples(
        report(inject, threshold), {"c0": samples("c0", [0.5 if inject else 0.03]), "c1": samples("c1", [0.015])}
    )
    call(tmp_path)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("The first process pair"))
    assert "1 %: 6 of 6" in line  # two plain runs of two cases, two slowed ones of one
    assert "2 %: 2 of 6" in line
    assert "5 %: 0 of 6" in line


def test_missed_slowdowns_and_false_flags_are_listed_by_name() -> None:
    configuration = RunRecord(configuration=RunConfiguration(inject=0.05))
    original = replace(report(0.05, 0.02), run=configuration)
    slowed, plain = original.comparisons
    wrong = replace(original, comparisons=(replace(slowed, verdict="inconclusive"), replace(plain, verdict="improved")))
    assert missed_lines([original]) == []
    assert missed_lines([wrong, wrong]) == [
        "Missed or wrong:",
        "",
        "- 5 % missed: c0 inconclusive, 2 times",
        "- flagged, wrongly: c1 improved (1 %), 2 times",
    ]


def test_verdicts_are_decided_again_from_the_samples(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples of one case show +10 %, those of the other that nothing changed, which is not its recorded verdict."""

    def answer(inject: float, threshold: float) -> Report:
        changed, unchanged = ("c0", "c1") if inject else ("c1", "c0")
        by_case = {
            changed: two_stages(changed, [math.log1p(0.1) + noise for noise in NOISE] * 6),
            unchanged: two_stages(unchanged, [*NOISE] * 6),
        }
        recorded = with_samples(report(inject, threshold), by_case, verdict="inconclusive")
        comparisons = [
            replace(comparison, verdict="regressed") if comparison.case == changed else comparison
            for comparison in recorded.comparisons
        ]
        return replace(recorded, comparisons=tuple(comparisons))

    harness.answer = answer
    assert call(tmp_path, "--runs", "1", "--check") == 0
    output = capsys.readouterr().out
    assert "made again from the samples: 4, of which 2 differ" in output
    assert output.count("unchanged, not inconclusive") == 2


def test_forks_and_the_noise_of_a_run_are_recorded(harness: FakeHarness, tmp_path: Path) -> None:
    forks = ((0.0123456, 0.001), (-0.01, 0.00234567))
    sample = PairSample("c0", "screening", 0, 1.0, 2.0, 0.5, 48, 1, 2, fork_ratios=forks)
    levels = {"quad_sd": 0.043, "fork_sd": 0.006, "pair_sd": 0.002}
    noise = {**levels, "speed_range": 1.4, "effort": 3.0, "words": "wanders"}
    harness.answer = lambda inject, threshold: with_samples(
        report(inject, threshold, noise=noise), {"c0": (sample,), "c1": ()}
    )
    call(tmp_path, "--runs", "1")
    recorded = read_runs(tmp_path / "data.jsonl")[0].report
    assert recorded.comparisons[0].samples == (sample,)
    assert recorded.run.noise is not None
    assert recorded.run.noise.quad_sd == 0.043


def test_verdicts_that_a_disturbed_run_held_back_are_held_back_again(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.answer = disturbed
    call(tmp_path, "--runs", "1")
    assert "runs held back: 2" in capsys.readouterr().out
    assert call(tmp_path, "--short", "--check") == 0
    assert "made again from the samples: 4, of which 0 differ" in capsys.readouterr().out
    data = tmp_path / "data.jsonl"
    lines = data.read_text()
    for changed in ('"valid":true,"hold":null', '"valid":false,"hold":false'):
        data.write_text(lines.replace('"valid":false,"hold":null', changed))
        assert call(tmp_path, "--table", "--check") == 0
        assert capsys.readouterr().out.count(": regressed, not inconclusive (regressed held back)") == 4


@pytest.mark.parametrize(
    ("check", "differing"),
    [
        ('{"flagged":true,"ratio":1.5}', 0),  # larger than the changes, so that none stands
        ('{"flagged":true,"ratio":1.00001}', 4),  # all changes are far beyond it
    ],
)
def test_a_flagged_aa_check_limits_which_verdicts_stand(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str], check: str, differing: int
) -> None:
    harness.answer = lambda inject, threshold: disturbed(inject, threshold, rounds=48)
    call(tmp_path, "--runs", "1")
    assert call(tmp_path, "--table", "--check") == 0
    assert "4, of which 4 differ" in capsys.readouterr().out  # signed ranks of so many samples confirm the changes
    data = tmp_path / "data.jsonl"
    data.write_text(data.read_text().replace('"aa_checks":[]', f'"aa_checks":[{check}]'))
    assert call(tmp_path, "--table", "--check") == 0
    assert f"4, of which {differing} differ" in capsys.readouterr().out


def test_the_short_table_has_a_column_for_each_load_and_the_largest_slowdown_first() -> None:
    def run_of(inject: float, threshold: float, load: str) -> CalibrationRun:
        recorded = replace(report(inject, threshold), run=RunRecord(configuration=RunConfiguration(inject=inject)))
        return CalibrationRun(PlannedRun(inject, threshold, 1, load), (), recorded)

    plain, slowed = run_of(0.0, 0.02, "steady"), run_of(0.05, 0.02, "quiet")
    assert short_table([plain]) == []
    assert short_table([run_of(0.01, 0.005, "swap"), slowed, plain, run_of(0.05, 0.02, "swap")]) == [
        "| slowdown, threshold | quiet | steady | swap |",
        "|---|---|---|---|",
        "| 5 %, 2 % | 1 of 1 |  | 1 of 1 |",
        "| 1 %, 0.5 % |  |  | 1 of 1 |",
        "",
    ]


def test_rates_over_all_runs_count_runs_wrong_directions_and_intervals() -> None:
    def run_of(planned: PlannedRun, *rows: tuple[Verdict, bool, float, tuple[float, float]]) -> CalibrationRun:
        original = report(planned.inject, planned.threshold)
        of_case = samples("c0", [0.01, 0.0, 0.02]) + samples("c0", [0.5], "confirmation")
        comparisons = tuple(
            replace(original.comparisons[0], verdict=verdict, injected=injected, ratio=ratio, ci=ci, samples=of_case)
            for verdict, injected, ratio, ci in rows
        )
        return CalibrationRun(planned, (), replace(original, comparisons=comparisons))

    plain, slowed = PlannedRun(0, 0.02, 1, "quiet"), PlannedRun(0.05, 0.02, 1, "steady")
    lines = overall_lines(
        [
            run_of(plain, ("unchanged", False, 1.0, (0.99, 1.01)), ("unchanged", False, 1.004, (1.001, 1.007))),
            run_of(plain, ("improved", False, 0.9, (0.8, 0.95)), ("improved", False, 0.9, (0.8, 0.95))),
            run_of(
                slowed,
                ("regressed", True, 1.04, (1.03, 1.05)),
                ("improved", True, 0.9, (0.8, 0.95)),
                ("not_worse", True, 1.06, (0.9, 1.1)),
                ("inconclusive", False, 1.0, (0.9, 1.1)),
                ("failed", True, 1.0, (0.9, 1.1)),
            ),
        ]
    )
    assert lines[0] == "All 3 runs:"
    assert re.findall(r"(\d+ of \d+),", "\n".join(lines)) == [
        "1 of 2",  # plain runs with a flag
        "2 of 5",  # false flags
        "3 of 4",  # wrong flags
        "1 of 3",  # slowed cases called not slower
        "7 of 8",  # answers
        "3 of 5",  # intervals without 0 %
    ]
    assert "standard deviation of the log ratios of a case that was not slowed: median 1 %" in lines[-2]
    assert lines[-1] == "- estimates of 5 % injected: median 4 %, nine in ten -8.6 % to 5.8 % (3 cases)"


def test_the_page_has_what_its_commands_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(calibrate.ROOT)
    blocks = BLOCK_OF_PAGE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    for command, block in blocks:
        assert calibrate.main(command.split()) == 0, command
        assert block.strip() == capsys.readouterr().out.strip(), command


@pytest.mark.nightly
@pytest.mark.parametrize("data", sorted(calibrate.DATA.parent.glob("calibration*.jsonl")), ids=lambda path: path.stem)
def test_the_comparator_decides_all_recorded_runs_as_before(data: Path) -> None:
    changes = [
        f"{recorded.case}: {calibrate.verdict_text(recorded)}, now {calibrate.verdict_text(again)}"
        for run in read_runs(data)
        for recorded, again in decide_again(run)
        if calibrate.verdict_text(recorded) != calibrate.verdict_text(again)
    ]
    assert not changes


def poisson_at_least(count: int, mean: float) -> float:
    """The probability of ``count`` or more events, by the complement's terms."""
    return 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count))


@given(st.integers(0, 30), st.integers(1, 20))
def test_interval_of_a_mean_cuts_off_exactly_its_tails(count: int, runs: int) -> None:
    low, high = mean_interval(count, runs)
    assert low == 0 if count == 0 else poisson_at_least(count, low * runs) == pytest.approx(0.025, abs=1e-9)
    assert 1 - poisson_at_least(count + 1, high * runs) == pytest.approx(0.025, abs=1e-9)
