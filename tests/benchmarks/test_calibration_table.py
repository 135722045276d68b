"""What calibrate.py prints of the runs that were made, and makes again of their samples; harness.py is a stand-in."""

import dataclasses
import math
import re
from pathlib import Path

import pytest
from made_calibration import Harness, call, noisy_and_disturbed, report, stage_of

from benchmarks import calibrate
from benchmarks.calibration_data import Step, Trial, read, verdicts_again
from benchmarks.calibration_table import overall_lines, short_table
from opduel.records import PairSample, Report, Verdict
from opduel.records.run_record import RunRecord


def test_what_single_pairs_say_is_of_cases_that_were_not_slowed(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def noisy(inject: float, threshold: float) -> Report:
        made = report(inject, threshold)
        pairs = {"c0": [0.5] * 12 if inject else [0.03, -0.03] * 6, "c1": [0.015, 0.0] * 6}
        comparisons = [
            dataclasses.replace(
                one,
                samples=[
                    PairSample(one.case, "screening", n, 1, 1, ratio, 1, 1) for n, ratio in enumerate(pairs[one.case])
                ],
            )
            for one in made.comparisons
        ]
        return dataclasses.replace(made, comparisons=tuple(comparisons))

    harness.answer = noisy
    call(tmp_path)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("The first process pair"))
    assert "1 %: 6 of 6" in line  # two plain runs of two cases, two slowed ones of one
    assert "2 %: 2 of 6" in line
    assert "5 %: 0 of 6" in line
    assert call(tmp_path, "--noisiest", "5") == 0
    assert capsys.readouterr().out.split() == ["--operators=[c]0", "--operators=[c]1"]
    assert call(tmp_path, "--noisiest", "1") == 0
    assert capsys.readouterr().out.split() == ["--operators=[c]0"]


def test_every_missed_slowdown_is_named_with_its_noise(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def missed(inject: float, threshold: float) -> Report:
        made = report(inject, threshold)
        ratios = [("screening", 0.01), ("screening", 0.03), ("confirmation", 0.02), ("confirmation", 0.06)]
        samples = [PairSample("c0", stage, n, 1, 1, ratio, 1, 1) for n, (stage, ratio) in enumerate(ratios)]
        slowed = dataclasses.replace(made.comparisons[0], verdict="inconclusive", samples=samples)
        return dataclasses.replace(made, comparisons=(slowed, made.comparisons[1])) if inject else made

    harness.answer = missed
    call(tmp_path)
    runs = len(harness.commands)
    capsys.readouterr()
    assert call(tmp_path, "--missed") == 0
    row = "| quiet | 5 % | c0 | inconclusive | 2 | 2 | 2.16 % | 4.00 % |"
    assert capsys.readouterr().out.splitlines()[2:] == [row, row]  # two slowed runs; what was not slowed isn't missed
    assert len(harness.commands) == runs
    (tmp_path / "data.jsonl").unlink()
    assert call(tmp_path, "--missed") == 2


def test_all_that_the_tables_count_as_missed_are_named() -> None:
    trials = read(calibrate.DATA)
    rows = calibrate.evaluate([trial.report for trial in trials if trial.step.inject])
    assert len(calibrate.missed_table(trials)) - 2 == sum(row.found.of - row.found.count for row in rows)


def test_verdicts_are_made_again_from_the_samples_that_were_kept(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One case whose samples say +10 %, and one of which they say nothing: that one's verdict is not theirs."""

    def with_samples(inject: float, threshold: float) -> Report:
        made = report(inject, threshold)
        changes = (0.0, math.log1p(0.1)) if inject else (math.log1p(0.1), 0.0)
        cases = [
            dataclasses.replace(
                one,
                verdict="regressed" if change else "inconclusive",
                samples=[
                    PairSample(one.case, stage, n, 100.0, 100 * math.exp(change + noise), change + noise, 1, 1)
                    for stage in ("screening", "confirmation")
                    for n, noise in enumerate((0.001, -0.002, 0.0015, -0.0005, 0.0, 0.001, -0.001, 0.0005) * 3)
                ],
            )
            for one, change in zip(made.comparisons, changes, strict=True)
        ]
        return dataclasses.replace(made, comparisons=tuple(cases))

    harness.answer = with_samples
    call(tmp_path, "--runs", "1")
    assert call(tmp_path, "--runs", "1", "--table", "--check") == 0
    told = capsys.readouterr().out
    assert "made again from the samples: 4, of which 2 differ" in told
    assert told.count("unchanged, not inconclusive") == 2


def test_the_noise_that_forks_show_is_kept_with_their_samples(harness: Harness, tmp_path: Path) -> None:
    forks = ((0.0123456, 0.001), (-0.01, 0.00234567))
    sample = PairSample("c0", "screening", 0, 1.0, 2.0, 0.5, 48, 1, 2, fork_ratios=forks)

    def measured(inject: float, threshold: float) -> Report:
        made = report(inject, threshold)
        return dataclasses.replace(made, comparisons=[dataclasses.replace(made.comparisons[0], samples=[sample])])

    harness.answer = measured
    call(tmp_path, "--runs", "1")
    assert read(tmp_path / "data.jsonl")[0].report.comparisons[0].samples == (sample,)


def test_the_noise_of_a_run_by_level_is_kept(harness: Harness, tmp_path: Path) -> None:
    noise = {
        "quad_sd": 0.043,
        "fork_sd": 0.006,
        "pair_sd": 0.002,
        "speed_range": 1.4,
        "effort": 3.0,
        "words": "wanders",
    }
    harness.answer = lambda inject, threshold: report(inject, threshold, noise=noise)
    call(tmp_path, "--runs", "1")
    kept = read(tmp_path / "data.jsonl")[0].report.run.noise
    assert kept is not None
    assert kept.quad_sd == 0.043


def test_what_a_disturbed_run_held_back_is_held_back_again(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.answer = noisy_and_disturbed
    call(tmp_path, "--runs", "1")
    for shown in ("--table", "--short"):
        assert call(tmp_path, "--runs", "1", shown, "--check") == 0
        assert "made again from the samples: 4, of which 0 differ" in capsys.readouterr().out
    data = tmp_path / "data.jsonl"
    lines = data.read_text()
    for changed in ('"valid":true,"hold":null', '"valid":false,"hold":false'):
        data.write_text(lines.replace('"valid":false,"hold":null', changed))
        assert call(tmp_path, "--runs", "1", "--table", "--check") == 0
        told = capsys.readouterr().out
        assert "4, of which 4 differ" in told
        assert told.count(": regressed, not inconclusive (regressed held back)") == 4


@pytest.mark.parametrize(
    ("check", "differ"),
    [
        ('{"flagged":true}', 0),  # of earlier lines; nothing stands
        ('{"flagged":true,"ratio":1.5}', 0),
        ('{"flagged":true,"ratio":1.00001}', 4),  # all changes are far beyond it
    ],
)
def test_what_an_aa_check_found_limits_what_stands(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], check: str, differ: int
) -> None:
    def clear(inject: float, threshold: float) -> Report:
        made = noisy_and_disturbed(inject, threshold)
        cases = [
            dataclasses.replace(
                one,
                samples=[dataclasses.replace(sample, stage=stage_of(n)) for n, sample in enumerate([*one.samples] * 6)],
            )
            for one in made.comparisons
        ]
        return dataclasses.replace(made, comparisons=tuple(cases))

    harness.answer = clear
    call(tmp_path, "--runs", "1")
    assert call(tmp_path, "--runs", "1", "--table", "--check") == 0
    assert "4, of which 4 differ" in capsys.readouterr().out  # thirty rounds are enough
    data = tmp_path / "data.jsonl"
    data.write_text(data.read_text().replace('"aa_checks":[]', f'"aa_checks":[{check}]'))
    assert call(tmp_path, "--runs", "1", "--table", "--check") == 0
    assert f"4, of which {differ} differ" in capsys.readouterr().out


def test_runs_whose_draw_another_file_has_can_be_left_out(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def drawn(inject: float, threshold: float) -> Report:
        return report(inject, threshold, seed=int(harness.option("--seed")))

    harness.answer = drawn
    call(tmp_path, "--runs", "1")
    met = tmp_path / "met.jsonl"
    (tmp_path / "data.jsonl").rename(met)
    call(tmp_path, "--runs", "3")
    made = len(harness.commands)
    capsys.readouterr()
    assert call(tmp_path, "--without", str(met)) == 0
    told = capsys.readouterr().out
    assert re.findall(r"^\| (?:nothing|5 %) \| 2 % \| (\d+) \|", told, re.M) == ["2", "2"]
    assert call(tmp_path, "--without", str(met), "--short") == 0
    assert "All 4 runs:" in capsys.readouterr().out
    assert call(tmp_path, "--without", str(tmp_path / "data.jsonl")) == 2  # none is left
    assert call(tmp_path, "--without", str(tmp_path / "dat.jsonl")) == 2
    assert "dat.jsonl: there is no such file" in caplog.messages[-1]
    assert call(tmp_path, "--without", str(met), "--noisiest", "1") == 0
    assert len(harness.commands) == made


def test_what_was_held_back_counts_in_all_lines_or_in_none(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.answer = noisy_and_disturbed
    call(tmp_path)
    for option, count, found in ((), "0 of 6", "0 of 2"), (("--anyway",), "6 of 6", "2 of 2"):
        assert call(tmp_path, "--table", *option) == 0
        assert f"| {found}, " in capsys.readouterr().out
        assert call(tmp_path, "--short", *option) == 0
        told = capsys.readouterr().out
        assert f"not slowed by more than the threshold, flagged: {count}," in told
        assert f"| 5 %, 2 % | {found} |" in told


def test_the_short_table_has_a_column_for_each_load_and_the_largest_slowdown_first() -> None:
    def of(inject: float, threshold: float, load: str) -> Trial:
        return Trial(Step(inject, threshold, 1, load), (), with_inject(report(inject, threshold), inject))

    def with_inject(made: Report, inject: float) -> Report:
        run = {**made.run, "configuration": {"inject": inject}}
        return dataclasses.replace(made, run=RunRecord(run))

    trials = [of(0.01, 0.005, "swap"), of(0.05, 0.02, "quiet"), of(0.0, 0.02, "steady"), of(0.05, 0.02, "swap")]
    assert short_table(trials) == [
        "| slowdown, threshold | quiet | steady | swap |",
        "|---|---|---|---|",
        "| 5 %, 2 % | 1 of 1 |  | 1 of 1 |",
        "| 1 %, 0.5 % |  |  | 1 of 1 |",
    ]


def test_all_runs_together_count_runs_wrong_directions_and_intervals() -> None:
    def of(step: Step, *verdicts: tuple[Verdict, bool, float, tuple[float, float]]) -> Trial:
        (made, *_) = report(step.inject, step.threshold).comparisons
        ratios = [("screening", ratio) for ratio in (0.01, 0.0, 0.02)] + [("confirmation", 0.5)]
        samples = [PairSample("c0", stage, n, 1, 1, ratio, 1, 1) for n, (stage, ratio) in enumerate(ratios)]
        comparisons = tuple(
            dataclasses.replace(made, verdict=verdict, injected=slowed, ratio=ratio, ci=ci, samples=samples)
            for verdict, slowed, ratio, ci in verdicts
        )
        return Trial(step, (), dataclasses.replace(report(step.inject, step.threshold), comparisons=comparisons))

    plain, slowed = Step(0, 0.02, 1, "quiet"), Step(0.05, 0.02, 1, "steady")
    told = overall_lines(
        [
            of(plain, ("unchanged", False, 1.0, (0.99, 1.01)), ("unchanged", False, 1.004, (1.001, 1.007))),
            of(plain, ("improved", False, 0.9, (0.8, 0.95)), ("improved", False, 0.9, (0.8, 0.95))),
            of(
                slowed,
                ("regressed", True, 1.04, (1.03, 1.05)),
                ("improved", True, 0.9, (0.8, 0.95)),
                ("not_worse", True, 1.06, (0.9, 1.1)),
                ("inconclusive", False, 1.0, (0.9, 1.1)),
                ("failed", True, 1.0, (0.9, 1.1)),
            ),
        ]
    )
    assert [line.partition(", ")[0] if "injected" not in line else line for line in told] == [
        "All 3 runs:",
        "",
        "- runs without a slowed case that have a flag: 1 of 2",
        "- comparisons that were not slowed by more than the threshold",
        "- flags that are wrong",
        "- slowed cases called unchanged or not slower: 1 of 3",
        "- comparisons with an answer: 7 of 8",
        "- intervals of cases that were not slowed",
        "- standard deviation of the log ratios of a case that was not slowed: median 1 %",
        "- estimates of 5 % injected: median 4 %, nine in ten -8.6 % to 5.8 % (3 cases)",
    ]
    counts = [re.findall(r": (\d+ of \d+),", line) for line in told]
    assert counts[3:5] == [["2 of 5"], ["3 of 4"]]
    assert counts[7] == ["3 of 5"]


PAGE = calibrate.ROOT / "docs" / "explanation" / "proof.md"
OF_THE_PAGE = re.compile(r"<!-- calibrate.py ([^\n]*): begin -->\n(.*?)<!-- end -->", re.S)


def test_the_page_has_what_its_commands_print_of_the_raw_results(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a table is still to come, the page names its command in its place."""
    monkeypatch.chdir(calibrate.ROOT)
    blocks = OF_THE_PAGE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    for command, shown in blocks:
        if shown.strip() != f"<!-- table: calibrate.py {command} -->":
            assert calibrate.main(command.split()) == 0, command
            assert shown.strip() == capsys.readouterr().out.strip(), command


@pytest.mark.nightly
@pytest.mark.parametrize("data", sorted(calibrate.DATA.parent.glob("calibration*.jsonl")), ids=lambda path: path.stem)
def test_all_verdicts_of_the_raw_results_are_those_of_the_comparator(data: Path) -> None:
    differing = {
        f"{then.case} {calibrate.in_words(then)}, now {calibrate.in_words(now)}"
        for trial in read(data)
        for then, now in verdicts_again(trial)
        if calibrate.differ(then, now)
    }
    assert not differing


def test_anyway_counts_what_was_held_back() -> None:
    told = report(0.05, 0.02)
    held = [dataclasses.replace(one, verdict="inconclusive", held_back=one.verdict) for one in told.comparisons[:1]]
    trusted = calibrate.as_if_trusted(dataclasses.replace(told, comparisons=[*held, told.comparisons[1]]))
    assert [one.verdict for one in trusted.comparisons] == [one.verdict for one in told.comparisons]
