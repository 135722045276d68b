"""Made reports of many nights: each commit against the one before, now and then against a release; with known changes.

The noise is made process pair by process pair, verdicts and intervals are those of the product's own statistics for a
plain t interval; what changed, and when, is known: ``TRUTH`` names it for the first cases.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from scipy import special, stats

from opduel.records import Build, Case, Commit, Comparison, PairSample, Report, Verdict
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord

ALPHA, THRESHOLD, ROUNDS = 0.05, 0.02, 12
FIRST_NIGHT = datetime(2023, 1, 2, 1, 30, tzinfo=UTC)
RELEASE_EVERY = 10  # nights after which the commit is measured against the release, too
_REACH = float(stats.t.isf(ALPHA / 10, ROUNDS - 1))  # of one of five looks
_OPERATORS = ("Convolution", "FullyConnected", "BatchNorm", "softmax", "dot", "topk", "Embedding", "transpose")


@dataclass(frozen=True)
class Change:
    """A true change of a case: ``each`` (log ratio) with every commit from share ``first`` of the nights on, ``count``
    commits long."""

    first: float
    count: int
    each: float


# By the case's number: a gradual drift, a step that no single run calls, a regression, an improvement after one.
TRUTH: dict[int, tuple[Change, ...]] = {
    0: (Change(0.5, 10, math.log(1.007)),),
    1: (Change(0.4, 1, math.log(1.015)),),
    2: (Change(0.6, 1, math.log(1.08)),),
    3: (Change(0.3, 1, math.log(1.05)), Change(0.7, 1, -math.log(1.05))),
}


def case_id(number: int) -> str:
    """Return the id of the case of that number."""
    operator = _OPERATORS[number % len(_OPERATORS)].lower()
    return f"{operator}_{number // (2 * len(_OPERATORS))}/{('forward', 'backward')[number // len(_OPERATORS) % 2]}"


def level(number: int, commit: int, nights: int) -> float:
    """Return the true log level of a case at a commit, 0 being that of the release and the first commit."""
    return sum(
        change.each * min(max(commit - int(change.first * nights) + 1, 0), change.count)
        for change in TRUTH.get(number, ())
    )


def made_reports(runs: int, cases: int, seed: int = 1, newest_samples_only: bool = False) -> Iterator[Report]:
    """That many runs: each night's commit against the last night's, every tenth against the release, too.

    With ``newest_samples_only`` all but the newest come without their samples, which no page but the HTML report reads.
    """
    rng = np.random.default_rng(seed)
    spreads = 0.012 * np.exp(rng.normal(0, 0.4, cases))
    pairs = [(old, night) for night in range(1, runs + 1) for old in _measured_against(night)][:runs]
    nights = pairs[-1][1]
    for number, (old, night) in enumerate(pairs):
        is_release = number > 0 and pairs[number - 1][1] == night
        comparisons = [
            _comparison(case, level(case, night, nights) - level(case, old, nights), float(spread), rng)
            for case, spread in enumerate(spreads)
        ]
        if newest_samples_only and number + 1 < len(pairs):
            comparisons = [replace(comparison, samples=()) for comparison in comparisons]
        yield _report(night, number, _release() if is_release else _build(old), _build(night), comparisons)


def _measured_against(night: int) -> tuple[int, ...]:
    return (night - 1, 0) if night % RELEASE_EVERY == 0 else (night - 1,)


def _comparison(number: int, truth: float, spread: float, rng: np.random.Generator) -> Comparison:
    log_ratios = truth + rng.normal(0, spread, ROUNDS)
    base = 10 ** (4 + number % 5 * 0.7)
    mean, error = float(log_ratios.mean()), float(log_ratios.std(ddof=1)) / math.sqrt(ROUNDS)
    reach = _REACH * error
    low, high = mean - reach, mean + reach
    bound = math.log1p(THRESHOLD)
    verdict: Verdict = "inconclusive"
    if low > bound:
        verdict = "regressed"
    elif high < -bound:
        verdict = "improved"
    elif -bound < low and high < bound:
        verdict = "unchanged"
    p = float(2 * special.stdtr(ROUNDS - 1, -max(abs(mean) - bound, 0) / error))
    name = case_id(number)
    samples = tuple(
        PairSample(name, "screening", i, base, base * math.exp(value), float(value), 8, 640)
        for i, value in enumerate(log_ratios)
    )
    return Comparison(
        name,
        f"nd.{_OPERATORS[number % len(_OPERATORS)]}",
        name.rpartition("/")[2],
        "time",
        "ns",
        verdict,
        ratio=math.exp(mean),
        ci=(math.exp(low), math.exp(high)),
        p_value=p,
        q_value=min(1.0, 2 * p),
        threshold=THRESHOLD,
        mde=math.expm1(bound + 3 * error),
        control=base,
        treatment=base * math.exp(mean),
        rounds=ROUNDS,
        decided_on="screening",
        samples=samples,
    )


def _report(night: int, number: int, control: Build, treatment: Build, comparisons: list[Comparison]) -> Report:
    started = FIRST_NIGHT + timedelta(days=night, hours=control.commit is None)
    run: dict[str, Any] = {
        "id": f"{started:%Y%m%dT%H%M%SZ}-{number:04x}",
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "finished": (started + timedelta(minutes=50)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "platform": "host",
        "spec": "all",
        "user_identifier": None,
        "run_type": "benchmark",
        "command": ["repo_driver.py", "--ab_testing", "-b", "all"],
        "framework": "mxnet",
        "seed": night,
        "alpha": ALPHA,
        "threads": 1,
        "inject": None,
        "complete": True,
        "aborted": False,
        "wall_s": 3000.0,
        "rounds": 40,
        "incidents": [],
        "validity": {"valid": True, "hold": True, "reasons": [], "frequency_mhz": None, "aa_checks": []},
    }
    cases = tuple(
        Case(
            comparison.case,
            comparison.operator,
            comparison.direction,
            {"data": [64, 128]},
            "float32",
            "cpu",
            THRESHOLD,
            60.0,
        )
        for comparison in comparisons
    )
    host = {"cpu_model": "made", "logical_cpus": 2, "memory_total": 24 * 2**30, "kernel": "Linux"}
    return Report(RunRecord.of(run), control, treatment, HostRecord.of(host), tuple(comparisons), cases=cases)


def _release() -> Build:
    return Build("mxnet", "mxnet==1.9.1", "release", "/builds/r/bin/python", "1.9.1", "3.11.7", f"{0:064x}")


def commit_id(night: int) -> str:
    """Return the 40 digits of a night's commit."""
    return hashlib.sha1(f"commit {night}".encode()).hexdigest()


def _build(night: int) -> Build:
    moment = FIRST_NIGHT + timedelta(days=night, hours=-6)
    commit = Commit(
        commit_id(night),
        int(moment.timestamp()),
        "A Developer <dev@example.org>",
        f"[OP] Change number {night} (#{night + 20000})",
    )
    return Build(
        "mxnet",
        commit.short,
        "source",
        f"/builds/{night}/bin/python",
        "2.0.0",
        "3.11.7",
        f"{night:064x}",
        commit=commit,
    )
