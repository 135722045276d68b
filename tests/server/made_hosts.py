"""Reports of made hosts: many runs of a few machines, one of which becomes noisier. Nothing in them was measured.

The hosts: ``bench-1`` to ``bench-4`` are of one kind and measure every run together, as a fleet; ``bench-3`` is
noisier in the last fifth of the runs. ``solo``, of another kind, measures some runs alone.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from made_report import made_report

from opduel.records import Comparison, HostRecord, PairSample, Report, RunRecord

FIRST = datetime(2026, 8, 3, 1, 30, tzinfo=UTC)
FLEET = ("bench-1", "bench-2", "bench-3", "bench-4")
NOISY, SOLO = "bench-3", "solo"
NOISIER_FROM = 0.8  # the share of the runs
_KINDS = {
    True: {"cpu_model": "AMD EPYC 9124 16-Core Processor", "logical_cpus": 32, "machine": "x86_64"},
    False: {"cpu_model": "Intel(R) Xeon(R) Gold 5318Y CPU @ 2.10GHz", "logical_cpus": 48, "machine": "x86_64"},
}
PAIRS = 6
SOLO_EVERY = 3  # runs


@dataclass(frozen=True)
class Noise:
    """``runs``: standard deviation, over runs, of the log of a host's noise; ``factor``: of the noisy one, later."""

    runs: float = 0.1
    factor: float = 1.6


def made_host_reports(
    runs: int, cases: int, noise: Noise | None = None, fleet: tuple[str, ...] = FLEET, seed: int = 1
) -> Iterator[Report]:
    """That many runs of the fleet, and after every third one of ``solo``."""
    rng, noise = np.random.default_rng(seed), noise or Noise()
    base = made_report(cases, rounds=PAIRS)
    spreads = 0.01 * np.exp(rng.normal(0, 0.6, cases))
    for number in range(runs):
        started = FIRST + timedelta(days=number)
        factors = {host: math.exp(rng.normal(0, noise.runs)) for host in fleet}
        if number >= NOISIER_FROM * runs and NOISY in factors:
            factors[NOISY] *= noise.factor
        hosts = [fleet[case % len(fleet)] for case in range(cases)]
        comparisons = [
            replace(_measured(comparison, spread * factors[host], rng), host=host)
            for comparison, spread, host in zip(base.comparisons, spreads, hosts, strict=True)
        ]
        yield _report(base, f"fleet-{number:04d}", started, comparisons, _hosts(comparisons, fleet, rng))
        if number % SOLO_EVERY == 0:
            alone = [
                _measured(comparison, spread, rng) for comparison, spread in zip(base.comparisons, spreads, strict=True)
            ]
            yield _report(base, f"solo-{number:04d}", started + timedelta(hours=6), alone, None)


def _measured(comparison: Comparison, spread: float, rng: np.random.Generator) -> Comparison:
    """Return a case that has not changed, with that spread between process pairs."""
    values = [float(value) for value in rng.normal(0, spread, PAIRS)]
    pairs = [
        PairSample(comparison.case, "screening", i, 1e5, 1e5 * math.exp(v), v, 8, 640) for i, v in enumerate(values)
    ]
    ratio, half = math.exp(float(np.mean(values))), 2.5 * spread / math.sqrt(PAIRS)
    return replace(
        comparison,
        verdict="unchanged",
        ratio=ratio,
        ci=(ratio * math.exp(-half), ratio * math.exp(half)),
        control=1e5,
        treatment=1e5 * ratio,
        rounds=PAIRS,
        decided_on="screening",
        failure=None,
        samples=tuple(pairs),
    )


def _hosts(comparisons: list[Comparison], fleet: tuple[str, ...], rng: np.random.Generator) -> list[dict[str, Any]]:
    host = {**_KINDS[True], "kernel": "Linux 6.1"}
    return [
        {
            "name": name,
            "shards": 2,
            "cases": sum(comparison.host == name for comparison in comparisons),
            "rounds": 2 * PAIRS,
            "wall_s": 900.0,
            "valid": bool(rng.random() > 0.04),
            "host": {**host, "name": name},
        }
        for name in fleet
    ]


def _report(
    base: Report, run_id: str, started: datetime, comparisons: list[Comparison], hosts: list[dict[str, Any]] | None
) -> Report:
    disturbed = [host["name"] for host in hosts or () if not host["valid"]]
    validity = {
        "valid": not disturbed,
        "hold": True,
        "reasons": [f"{name}: other processes kept 0.41 of opduel's processors busy" for name in disturbed],
        "frequency_mhz": None,
        "aa_checks": [_check(comparison) for comparison in comparisons[:4]],
    }
    run = {
        **asdict(base.run),
        "id": run_id,
        "started": started.isoformat(),
        "finished": (started + timedelta(minutes=20)).isoformat(),
        "spec": "all" if hosts else "smoke",
        "validity": validity,
        "fleet": {"hosts": hosts} if hosts else None,
    }
    name = {} if hosts else {"name": SOLO}
    host = {**_KINDS[bool(hosts)], "kernel": "Linux 6.1", **name}
    return replace(base, run=RunRecord.of(run), host=HostRecord.of(host), comparisons=tuple(comparisons), cases=())  # type: ignore[arg-type]


def _check(comparison: Comparison) -> dict[str, Any]:
    """Return an A/A check with the case's own figures."""
    return {
        "case": comparison.case,
        "ratio": comparison.ratio,
        "ci": comparison.ci,
        "p_value": 1.0,
        "threshold": 0.02,
        "rounds": PAIRS,
        "flagged": False,
        "samples": comparison.samples,
    }
