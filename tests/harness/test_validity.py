"""What makes a run invalid: limits on the host's noise, A/A checks, and what the run then reports."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_run import request
from toy_bench import toy_case

import opduel.harness.rounds.pair
import opduel.harness.run
import opduel.harness.verification
from opduel.harness.machine.cpus import current_mhz
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.harness.validity import FEWEST_READINGS, WHY_WITHHELD, Frequency, aa_problems, validity_problems
from opduel.records import Case
from opduel.records.host_record import MeasureRecord, NoiseRecord
from opduel.records.measurement import Side
from opduel.records.run_record import AACheckRecord


def noise(**means: float) -> NoiseRecord:
    """The noise of a time in which nothing else was going on but this."""
    quiet = {"neighbours": 0.01, "stolen": 0.001, "memory_pressure": 0.0, "cpu_pressure": 0.2, **means}
    return NoiseRecord(seconds=1.0, **{key: MeasureRecord(min=0.0, max=1.0, mean=mean) for key, mean in quiet.items()})


@pytest.mark.parametrize(
    ("host", "spare", "frequency", "words"),
    [
        (noise(), 0, None, []),
        (noise(cpu_pressure=1.0), 0, None, []),  # our own processes wait for each other, too
        (noise(neighbours=0.2), 0, None, []),
        (noise(neighbours=0.21), 0, None, ["kept 0.21 of opduel's processors"]),
        (noise(neighbours=4.1), 14, None, []),  # they find room elsewhere
        (noise(neighbours=14.3), 14, None, ["kept 14.30 of"]),
        (noise(stolen=0.1), 0, None, []),
        (noise(stolen=0.11), 14, None, ["withheld 0.11 of"]),
        (noise(memory_pressure=0.01), 0, None, []),
        (noise(memory_pressure=0.03), 0, None, ["waited for memory for 3 % of"]),
        (noise(), 0, Frequency(2000, 2500), []),
        (noise(), 0, Frequency(1999, 2500), ["from 2500 down to 1999 MHz"]),
        (noise(neighbours=1, stolen=1), 0, None, ["other processes", "hypervisor"]),
        (NoiseRecord(samples=3, seconds=1.0), 0, None, []),  # a host that tells nothing
        (None, 0, None, []),
    ],
)
def test_reasons(host: NoiseRecord | None, spare: int, frequency: Frequency | None, words: list[str]) -> None:
    reasons = validity_problems(host, spare, frequency)
    assert len(reasons) == len(words)
    assert all(word in reason for word, reason in zip(words, reasons, strict=True))


def test_a_flagged_sentinel_is_a_reason() -> None:
    calm = AACheckRecord(case="a", ratio=1.01, rounds=5)
    assert aa_problems([calm]) == []
    (reason,) = aa_problems([calm, replace(calm, case="b", ratio=1.2, flagged=True)])
    assert reason == "b differed by +20.0 % from itself, on the control alone (5 rounds)"


def test_frequency_is_read_where_the_host_tells(tmp_path: Path) -> None:
    for cpu, text in {1: "2600000\n", 2: "garbage", 3: "1300000\n"}.items():
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(text)
    assert current_mhz([1, 2, 3, 4], tmp_path) == [2600.0, 1300.0]
    assert current_mhz([9], tmp_path) == []


def test_a_few_odd_readings_of_the_frequency_are_no_spread() -> None:
    assert Frequency.of([2600.0] * (FEWEST_READINGS - 1)) is None
    steady = Frequency.of([2600.0] * 95 + [800.0] * 5)
    assert steady == Frequency(2600, 2600)
    throttled = Frequency.of([2600.0] * 70 + [1300.0] * 30)
    assert throttled is not None
    assert throttled.low == 1300


class FakeMonitor:
    """A host as a test says, whatever the real one is."""

    before: NoiseRecord | None = None
    during: NoiseRecord | None = noise()
    verifying: "FakeMonitor"

    def begin(self) -> None: ...

    def sample(self) -> None: ...


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> FakeMonitor:
    """While cases are measured; another one is there while they are verified."""
    monitor, monitor.verifying = FakeMonitor(), FakeMonitor()
    monkeypatch.setattr(opduel.harness.run, "HostMonitor", lambda **_: monitor)
    monkeypatch.setattr(opduel.harness.verification, "HostMonitor", lambda **_: monitor.verifying)
    return monitor


def slow_and_same() -> list[Case]:
    return [replace(toy_case(name, slower=slower), threshold=0.5) for name, slower in (("slow", 3), ("same", 1))]


def run_request(*cases: Case, **changes: Any) -> RunRequest:
    return request(*cases, max_rounds=6).configured(**changes)


def test_a_quiet_host_and_calm_sentinels_are_trusted() -> None:
    report = run_ab(run_request(*slow_and_same()))
    validity = report.run.validity
    assert (validity.valid, validity.reasons) == (True, ())
    (aa_case,) = validity.aa_checks
    assert aa_case.flagged is False
    assert aa_case.rounds == len(aa_case.samples) == 4, "in two of three rounds that cases share, and of the suspect's"
    assert [comparison.verdict for comparison in report.comparisons] == ["regressed", "unchanged"]
    assert all(comparison.held_back is None for comparison in report.comparisons)


def test_on_a_busy_host_verdicts_stand_whose_rounds_agree(host: FakeMonitor) -> None:
    host.during = noise(neighbours=500)
    report = run_ab(run_request(*slow_and_same(), busy_host="hold", max_rounds=5))
    assert not report.run.validity.valid
    assert [(comparison.verdict, comparison.held_back) for comparison in report.comparisons] == [
        ("regressed", None),
        ("unchanged", None),
    ]


@pytest.mark.usefixtures("ranks_alone")
@pytest.mark.parametrize(("hold", "rounds"), [(True, 5), (True, 19), (False, 5)])
def test_on_a_busy_host_verdicts_stand_that_rounds_enough_support(host: FakeMonitor, hold: bool, rounds: int) -> None:
    """Five rounds are too few for ranks; where more are allowed, they are made."""
    host.during = noise(neighbours=500)
    cases = (*slow_and_same(), toy_case("bad", "refuse"))
    report = run_ab(run_request(*cases, busy_host="hold" if hold else "report", max_rounds=rounds))
    validity = report.run.validity
    assert (validity.valid, validity.hold) == (False, hold)
    assert "500.00 of opduel's processors" in validity.reasons[0]
    verdicts = [(comparison.verdict, comparison.held_back) for comparison in report.comparisons]
    if hold and rounds == 5:
        assert verdicts == [("inconclusive", "regressed"), ("inconclusive", "unchanged"), ("failed", None)]
    else:
        assert verdicts == [("regressed", None), ("unchanged", None), ("failed", None)]
    assert report.comparisons[0].rounds == (5 if rounds == 5 else 13)
    assert report.comparisons[0].p_value is not None


def favour_the_control(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Whoever is asked as the treatment gets this share more to do, though the builds are the same."""
    message = CaseRequest.message

    def favouring(self: CaseRequest, side: Side) -> dict[str, Any]:
        fair = message(self, side)
        turns = fair["case"]["inputs"].get("turns", 2000) * (1 + share if side == "treatment" else 1)
        return {**fair, "case": {**fair["case"], "inputs": {**fair["case"]["inputs"], "turns": int(turns)}}}

    monkeypatch.setattr(CaseRequest, "message", favouring)


def test_a_harness_that_favours_a_side_gives_itself_away(monkeypatch: pytest.MonkeyPatch) -> None:
    favour_the_control(monkeypatch, 0.5)
    report = run_ab(run_request(*(replace(toy_case(name), threshold=0.1) for name in "abc"), sentinels=2))
    flagged = [check.case for check in report.run.validity.aa_checks if check.flagged]
    assert flagged
    assert all(any(case in reason for reason in report.run.validity.reasons) for case in flagged)
    assert {comparison.verdict for comparison in report.comparisons} == {"inconclusive"}
    assert "regressed" in {comparison.held_back for comparison in report.comparisons}


def test_a_change_far_beyond_what_the_checks_found_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    favour_the_control(monkeypatch, 0.15)
    cases = [replace(toy_case(name, slower=slower), threshold=0.02) for name, slower in (("slow", 3), ("same", 1))]
    report = run_ab(run_request(*cases, sentinels=2))
    validity = report.run.validity
    assert not validity.valid
    assert any(check.flagged for check in validity.aa_checks)
    slow, same = report.comparisons
    assert (slow.verdict, slow.held_back) == ("regressed", None)
    assert re.fullmatch(r"an A/A check was off by a factor of 1\.1\d, and this ratio may be, too", slow.note)
    assert (same.verdict, same.held_back) == ("inconclusive", "regressed")
    assert re.fullmatch(r"held back: would be regressed; an A/A check was off by a factor of 1\.1\d", same.note)


@pytest.mark.usefixtures("ranks_alone")
def test_after_load_and_a_bias_a_verdict_needs_more_rounds_too(
    host: FakeMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    favour_the_control(monkeypatch, 0.15)
    host.during = noise(stolen=0.5)
    cases = [replace(toy_case(name, slower=slower), threshold=0.02) for name, slower in (("slow", 3), ("same", 1))]
    few, many = (run_ab(run_request(*cases, sentinels=2, max_rounds=rounds)) for rounds in (6, 20))
    assert [comparison.held_back for comparison in few.comparisons] == ["regressed", "regressed"]
    assert all(f"{WHY_WITHHELD}; an A/A check was off" in comparison.note for comparison in few.comparisons)
    assert [comparison.held_back for comparison in many.comparisons] == [None, "regressed"]


def test_a_bias_holds_back_what_the_verification_claims_too(monkeypatch: pytest.MonkeyPatch) -> None:
    favour_the_control(monkeypatch, 0.15)
    cases = [replace(toy_case(name, slower=slower), threshold=0.02) for name, slower in (("slow", 3), ("same", 1))]
    report = run_ab(run_request(*cases, sentinels=2, verify=True, verify_after=0.0))
    assert [(comparison.verdict, comparison.held_back) for comparison in report.comparisons] == [
        ("regressed", None),
        ("inconclusive", "regressed"),
    ]


def test_without_sentinels_there_are_none() -> None:
    report = run_ab(run_request(*slow_and_same(), sentinels=0, max_rounds=2))
    assert (report.run.aa_cases, report.run.validity.aa_checks) == (0, ())


@pytest.mark.usefixtures("ranks_alone")
@pytest.mark.parametrize(("rounds", "verdict"), [(5, "inconclusive"), (12, "regressed")])
def test_a_verification_on_a_busy_host_has_to_support_what_it_replicates(
    host: FakeMonitor, rounds: int, verdict: str
) -> None:
    """What was not verified stands as it was: the host was quiet then."""
    host.verifying.during = noise(stolen=0.5)
    report = run_ab(run_request(*slow_and_same(), verify=True, verify_after=0.0, max_rounds=rounds))
    (reason,) = report.run.validity.reasons
    assert reason.endswith("of opduel's processors, while verifying")
    slow, same = report.comparisons
    assert (slow.verdict, slow.held_back) == (verdict, None if verdict == "regressed" else "regressed")
    assert (same.verdict, same.held_back) == ("unchanged", None)
    assert (slow.rounds, same.rounds) == ((5, 2) if rounds == 5 else (8, 5)), "the first one wasn't disturbed"
    assert slow.verification is not None
    assert slow.verification.rounds == (5 if rounds == 5 else 8), "the first look at which it can stand"
    assert report.host.verifying == noise(stolen=0.5)


@pytest.mark.usefixtures("ranks_alone")
def test_an_undisturbed_verification_does_not_make_up_for_a_busy_host(host: FakeMonitor) -> None:
    host.during = noise(stolen=0.5)
    report = run_ab(run_request(*slow_and_same(), verify=True, verify_after=0.0, max_rounds=5))
    assert [comparison.held_back for comparison in report.comparisons] == ["regressed", "unchanged"]
