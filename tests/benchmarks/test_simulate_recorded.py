"""Recorded process pairs through the decision procedure: which count, and that the change is what was added."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_calibration import Harness, call

from benchmarks import simulate_recorded
from benchmarks.simulate_decisions import Noise, Scenario, run
from benchmarks.simulate_recorded import PowerLooks, Replay, Stream, exchanged, runs_of, streams_of
from opduel.commands.entry import run_command
from opduel.comparator import plan_looks
from opduel.records import PairSample, UsageError


def stream(name: str, ratios: list[float]) -> Stream:
    return [
        PairSample(name, "screening", n, 100.0, 100 * math.exp(ratio), ratio, 1, 1) for n, ratio in enumerate(ratios)
    ]


def test_sides_in_each_others_place_turn_the_ratio_round() -> None:
    (pair,) = stream("a", [0.5])
    (other,) = exchanged([replace(pair, fork_ratios=((0.5, 0.01),))])
    assert (other.control, other.treatment) == (100 * math.exp(0.5), 100.0)
    assert (other.log_ratio, other.fork_ratios) == (-0.5, ((-0.5, 0.01),))


def test_each_case_comes_once_each_way_round() -> None:
    streams = [stream(f"c{number}", [0.1]) for number in range(7)]
    runs = list(runs_of(streams, 3, np.random.default_rng(1)))
    assert [len(one) for one in runs] == [3] * 4  # one is left over of either half
    halves = [[pair.case_id for (pair,) in first + second] for first, second in (runs[:2], runs[2:])]
    assert all(len(set(half)) == 6 for half in halves)
    ways = {(pair.case_id, pair.log_ratio > 0) for one in runs for (pair,) in one}
    assert len(ways) == 12
    assert {way for _, way in ways} == {True, False}


@pytest.mark.parametrize(("power", "last_to_first"), [(0.0, 1.0), (1.0, 6.0), (3.0, 216.0)])
def test_looks_share_the_error_by_a_power_of_their_samples(power: float, last_to_first: float) -> None:
    planned = plan_looks(30)
    looks = PowerLooks(planned.counts, power=power)
    shares = [looks.weight(count) for count in looks.counts]
    assert sum(shares) == pytest.approx(1)
    assert shares[-1] / shares[0] == pytest.approx(last_to_first)  # after 30 samples and after 5
    if power == 1:
        assert shares == [planned.weight(count) for count in planned.counts]


def test_the_change_is_exactly_what_was_added_and_pairs_come_in_their_order() -> None:
    ratios = [0.001, -0.002, 0.003, -0.001, 0.002] * 12
    recorded = [stream(f"c{number}", ratios) for number in range(4)]
    scenario = Scenario("", (0.1,) * 4, 0.02)
    made = Replay(scenario, Noise(), np.random.default_rng(1), recorded=recorded)
    found = run(made, plan_looks(30), 0.05)
    assert [one.verdict for one in found] == ["regressed"] * 4
    for samples in made.samples.values():
        assert [one.log_ratio - math.log(1.1) for one in samples] == pytest.approx(ratios[: len(samples)])
        assert all(math.log(one.treatment / one.control) == pytest.approx(one.log_ratio) for one in samples)


def test_a_case_without_more_pairs_ends_and_the_others_go_on() -> None:
    noise = [0.03, -0.03, 0.029, -0.031, 0.0305]
    recorded = [stream("short", noise), stream("long", noise * 12), stream("also", noise * 12)]
    made = Replay(Scenario("", (0.0,) * 3, 0.02), Noise(), np.random.default_rng(1), recorded=recorded)
    short, *others = run(made, plan_looks(30), 0.05)
    assert (short.verdict, len(short.samples)) == ("inconclusive", 5)
    assert min(len(one.samples) for one in others) > 5


def test_recorded_cases_are_those_of_the_smallest_threshold_and_were_not_slowed(
    harness: Harness, tmp_path: Path
) -> None:
    assert call(tmp_path, "--plan", "0:2%", "5%:2%", "5%:1%") == 0
    slowed = streams_of(tmp_path / "data.jsonl")
    assert len(slowed) == 2, "of two runs at 1 % the case that was not slowed"
    assert {pair.case_id for stream in slowed for pair in stream} == {"c1"}


def test_the_table_counts_flags_and_what_is_called_unchanged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    streams = [stream(f"c{number}", rng.normal(0, 0.01, 70).tolist()) for number in range(300)]
    monkeypatch.setattr(simulate_recorded, "streams_of", lambda path: streams)
    assert simulate_recorded.main(["--thresholds", "0.02", "--parts", "0", "15", "-15", "--cases", "150"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    none, large, less = ([int(n) for n in re.findall(r"(\d+) of 600", line)] for line in lines)
    assert max(none[:2]) < 5
    assert none[2] > 480
    assert large == [600, 0, 0, 0, 0]
    assert less == [0, 600, 0, 0, 0]
    assert lines[0].startswith("| 2 % | +0 % |")
    assert lines[1].startswith("| 2 % | +30 % |")


@pytest.mark.parametrize("arguments", [["--cases", "0"], ["--thresholds", "-1"], ["--alpha", "7"], ["--seed", "x"]])
def test_wrong_usage_is_one_line(arguments: list[str], caplog: pytest.LogCaptureFixture) -> None:
    assert run_command("simulate_recorded.py", lambda: simulate_recorded.main(arguments)) == 2
    assert arguments[0] in caplog.messages[-1]


def test_a_file_without_enough_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only 0 cases have recorded noise: lower --cases"):
        simulate_recorded.main(["--data", str(tmp_path / "none.jsonl")])
