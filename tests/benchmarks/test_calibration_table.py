"""What calibrate.py prints of recorded runs, and decides again from their samples; harness.py is a stand-in here."""

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fake_harness import FakeHarness, call, report, samples, with_samples

from benchmarks import calibrate
from benchmarks.calibration_data import CalibrationRun, PlannedRun, analysis_of, decide_again, parse_run
from benchmarks.calibration_table import overall_lines
from benchmarks.raw_results import read
from opduel.comparator.looks import FIRST_LOOK
from opduel.records import PairSample, Report, Verdict

NOISE = (0.001, -0.002, 0.0015, -0.0005, 0.0, 0.001, -0.001, 0.0005)
PAGE = calibrate.ROOT / "docs" / "explanation" / "proof.md"
BLOCK_OF_PAGE = re.compile(r"<!-- calibrate.py ([^\n]*): begin -->\n(.*?)<!-- end -->", re.S)


def two_stages(case_id: str, ratios: list[float]) -> tuple[PairSample, ...]:
    """Return samples of which the first look is screening, and the others confirm."""
    return samples(case_id, ratios[:FIRST_LOOK]) + samples(case_id, ratios[FIRST_LOOK:], "confirmation")


def test_verdicts_are_decided_again_from_the_samples(
    harness: FakeHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples of one case show +10 %, and its verdict was withheld; those of the other show that nothing changed, which
    is not its recorded verdict."""

    def answer(inject: float, threshold: float) -> Report:
        by_case = {
            "c0": two_stages("c0", [math.log1p(0.1) + noise for noise in NOISE] * 6),
            "c1": two_stages("c1", [*NOISE] * 6),
        }
        disturbed = report(inject, threshold, validity={"valid": False, "reasons": ["busy"]})
        changed, unchanged = with_samples(disturbed, by_case, verdict="inconclusive").comparisons
        return replace(disturbed, comparisons=(replace(changed, held_back="regressed"), unchanged))

    harness.answer = answer
    assert call(tmp_path, "--runs", "1", "--check") == 0
    output = capsys.readouterr().out
    assert "runs held back: 2" in output
    assert "made again from the samples: 4, of which 2 differ" in output
    assert output.count("c1: unchanged, not inconclusive") == 2


def test_forks_and_the_noise_of_a_run_are_recorded(harness: FakeHarness, tmp_path: Path) -> None:
    forks = ((0.0123456, 0.001), (-0.01, 0.00234567))
    sample = PairSample("c0", "screening", 0, 1.0, 2.0, 0.5, 48, 1, 2, fork_ratios=forks)
    levels = {"quad_sd": 0.043, "fork_sd": 0.006, "pair_sd": 0.002}
    noise = {**levels, "speed_range": 1.4, "effort": 3.0, "words": "wanders"}
    harness.answer = lambda inject, threshold: with_samples(
        report(inject, threshold, noise=noise), {"c0": (sample,), "c1": ()}
    )
    call(tmp_path, "--runs", "1")
    recorded = read(tmp_path / "data.jsonl", parse_run)[0].report
    assert recorded.comparisons[0].samples == (sample,)
    assert recorded.run.noise is not None
    assert recorded.run.noise.quad_sd == 0.043


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
        f"{recorded.case}: {recorded.verdict}, now {again.verdict}"
        for run in read(data, parse_run)
        for recorded, again in decide_again(run)
        if recorded.verdict != again.verdict
    ]
    assert not changes


def test_on_the_busy_host_most_slowdowns_would_have_stood_as_proof_md_says() -> None:
    standing: Counter[Verdict] = Counter()
    for run in read(calibrate.DATA.with_name("calibration-busy.jsonl"), parse_run):
        analysis = analysis_of(run)
        stand = analysis.standing_cases()
        standing.update(comparison.verdict for comparison in analysis.comparisons() if comparison.case in stand)
    assert standing == {"regressed": 55, "unchanged": 66}
