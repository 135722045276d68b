"""Reports for the reporters' tests: one of every verdict, and the parts to make others of."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from opduel.records import Build, Case, Comparison, Effort, Failure, PairSample, Report, Verdict
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord

CONTROL = Build("mxnet", "mxnet==1.8.0.post0", "release", "/builds/a/bin/python", "1.8.0", "3.11.7", "aa" * 32)
TREATMENT = Build("mxnet", "mxnet==1.9.1", "release", "/builds/b/bin/python", "1.9.1", "3.11.7", "bb" * 32)
CRASH = Failure("treatment", "crash", "the worker died of SIGSEGV", "some output\nSegmentation fault: 11\n\n")
INCIDENT = {
    "round": 3,
    "case_id": "nd.topk",
    "failure": {"side": "control", "kind": "killed", "reason": "SIGKILL from outside", "output_tail": ""},
    "consequence": "a new worker took its place",
}


def validity(*reasons: str) -> dict[str, Any]:
    """What a run says of its trustworthiness; it can be trusted if there are no reasons against it."""
    aa_case = {
        "case": "steady",
        "ratio": 1.002,
        "ci": [0.99, 1.01],
        "p_value": 1.0,
        "threshold": 0.02,
        "rounds": 5,
        "flagged": False,
        "samples": [],
    }
    return {
        "valid": not reasons,
        "hold": True,
        "reasons": list(reasons),
        "frequency_mhz": None,
        "aa_checks": [aa_case],
    }


OPTIONS = ("platform", "user_identifier", "run_type", "alpha", "threads", "inject")  # also keys of a run


def run(**changes: Any) -> dict[str, Any]:
    """Return a run's mapping with every key of ``RunRecord``, and a configuration with the same options."""
    values = {
        "id": "20240229T101112Z-7f3a",
        "started": "2024-02-29T10:11:12Z",
        "finished": "2024-02-29T10:15:02Z",
        "resumed": [],
        "configuration": None,
        "platform": "cpu",
        "threshold": 0.02,
        "user_identifier": None,
        "run_type": "benchmark",
        "spec": "conv",
        "spec_path": "specifications/conv.json",
        "branch": None,
        "command": ["harness.py", "-b", "specs/conv.json"],
        "info": None,
        "suite": None,
        "framework": "mxnet",
        "seed": 7,
        "spec_seed": None,
        "left_out": None,
        "alpha": 0.05,
        "threads": 1,
        "max_rounds": 50,
        "time_budget": 300.0,
        "inject": None,
        "verify_after": None,
        "breakdown": "networks",
        "aa_cases": 1,
        "looks": {"counts": [5, 8, 12, 20, 32, 50], "suspect_level": 0.01, "by_metric": {}},
        "environment": {"OMP_NUM_THREADS": "1"},
        "env": [],
        "counting": None,
        "wipe_cache": None,
        "golden": None,
        "forks": {"forked": 3, "alone": 0, "reason": None},
        "cpus": {"measure": [1], "start": [0, 1], "nice": -20},
        "complete": True,
        "resumable": False,
        "aborted": False,
        "interrupted": False,
        "stop_reason": None,
        "forecast": None,
        "expected_s": None,
        "earlier_budget": None,
        "noise": None,
        "prior_runs": None,
        "fleet": None,
        "continues": False,
        "not_broken_down": 0,
        "rounds": 12,
        "wall_s": 230.5,
        "timed_s": 101.25,
        "spent_s": {"timed calls": 30.5, "waiting for a pair": 4.0},
        "incidents": [],
        "validity": validity(),
        "profile_output": None,
        "skipped": [],
        **changes,
    }
    options = {name: values[name] for name in OPTIONS if values[name] is not None}
    return {**values, "configuration": {**options, **(values["configuration"] or {})}}


def comparison(case: str, verdict: Verdict = "unchanged", ratio: float | None = 1.001, **changes: Any) -> Comparison:
    """A comparison of ``case`` with the usual figures around ``ratio``."""
    figures: dict[str, Any] = {
        "operator": "nd.Convolution",
        "direction": "forward",
        "metric": "time",
        "unit": "ns",
        "ci": None if ratio is None else (ratio * 0.99, ratio * 1.01),
        "p_value": 0.25,
        "q_value": 0.5,
        "threshold": 0.02,
        "mde": 0.012,
        "control": 123_456.0,
        "treatment": None if ratio is None else 123_456.0 * ratio,
        "rounds": 12,
        "decided_on": "screening",
        "failure": None,
        "injected": False,
        **changes,
    }
    return Comparison(case=case, verdict=verdict, ratio=ratio, **figures)


def failed(case: str, failure: Failure = CRASH, **changes: Any) -> Comparison:
    """A comparison that could not be made."""
    nothing = {"p_value": None, "q_value": None, "mde": None, "control": None, "rounds": 0, "decided_on": None}
    return comparison(case, "failed", None, **{**nothing, "failure": failure, **changes})


EFFORT = Effort(
    *(1, 24),
    *(0.044, 0.0066, 0.0013),  # standard deviations of quad, fork and pair
    *(0.002, 0.05, 0.1, 1.5),  # seconds of a quad, of preparing a fork, of the fork, of the pair
    seconds=12.5,
)
EVERY_VERDICT = (
    comparison("steady"),
    comparison("faster", "improved", 0.5, control=2_345_678.0),
    comparison(
        "slower", "regressed", 1.053, samples=(PairSample("slower", "screening", 0, 1e5, 1.05e5, 0.049, 8, 640),)
    ),
    comparison("unclear", "inconclusive", 1.01, note="two modes"),
    failed("broken"),
    comparison("much slower", "regressed", 12.34),
    comparison("hardly faster", "not_worse", 0.987, ci=(0.978, 0.996), effort=EFFORT, note="faster by 0.4 to 2.2 %"),
    comparison("hardly larger", "not_better", 1.015, ci=(0.998, 1.032), metric="memory", unit="bytes"),
)


def with_run(report: Report, **changes: Any) -> Report:
    """Return the report with other values, given as plain data, in its run."""
    return replace(report, run=RunRecord.of({**asdict(report.run), **changes}))


def with_host(report: Report, **changes: Any) -> Report:
    """Return the report with other values, given as plain data, in its host."""
    return replace(report, host=HostRecord.of({**asdict(report.host), **changes}))


def report(comparisons: Sequence[Comparison] = EVERY_VERDICT, **changes: Any) -> Report:
    """A report of ``comparisons``; ``changes`` go to its run."""
    host = HostRecord(cpu_model="AMD EPYC", logical_cpus=2, memory_total=24 * 2**30, kernel="Linux 6.1")
    cases = tuple(
        Case(
            comparison.case,
            comparison.operator,
            "forward",
            {"data": [8, 3], "kernel": None},
            "float32",
            "cpu",
            0.02,
            60.0,
        )
        for comparison in comparisons
    )
    return Report(RunRecord.of(run(**changes)), CONTROL, TREATMENT, host, tuple(comparisons), cases=cases)


DISTRUSTED = {"validity": validity("other processes kept 0.52 of opduel's processors busy")}
