#!/usr/bin/env python3
"""How often the page of hosts marks a steady host, and how soon one that became noisier. Hosts and noise are made up.

    .venv/bin/python benchmarks/simulate_hosts.py [--hosts 400]

Process pairs are drawn, and go through the server's own functions: spreads of cases, their references, the noise of
runs, and the tests that mark a host. Each row is of that many independent hosts; a run has 40 cases of 6 pairs.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opduel.comparator.host_noise import (
    OTHERS_LEVEL,
    REFERENCE_RUNS,
    above_others_p,
    latest_rise,
    level_of,
    log_spread,
    run_noise,
)

CALIBRATION = Path(__file__).resolve().parent / "results" / "calibration-median-quad.jsonl"
Floats = NDArray[np.float64]
Weather = Callable[[np.random.Generator, int], Floats]  # the log of a host's true noise, run by run

CASES, PAIRS = 40, 6
STEADY_RUNS = 60
DELAYS = (3, 4, 5, 8, 12)  # runs after the change
HOSTS_OF_A_KIND = 8
_OUTLIERS = 0.03  # the share of process pairs that are off by five times as much


def normal(rng: np.random.Generator, runs: int) -> Floats:
    """Independent from run to run, with a standard deviation of 15 %."""
    return rng.normal(0, 0.15, runs)


def heavy(rng: np.random.Generator, runs: int) -> Floats:
    """The same with heavy tails: now and then a run is several times as noisy."""
    return 0.15 * rng.standard_t(2, runs)


def correlated(rng: np.random.Generator, runs: int) -> Floats:
    """Neighbouring runs are alike, by a correlation of 0.3: then the tests' assumption does not hold."""
    noise = rng.normal(0, 0.15, runs)
    for run in range(1, runs):
        noise[run] = 0.3 * noise[run - 1] + np.sqrt(1 - 0.3**2) * noise[run]
    return noise


WEATHER: dict[str, Weather] = {"independent": normal, "heavy tails": heavy, "correlated, 0.3": correlated}


def history(rng: np.random.Generator, truth: Floats) -> list[float]:
    """The noise that the server would find in runs of that true noise."""
    spreads = 0.01 * np.exp(rng.normal(0, 0.6, CASES))
    sums: dict[int, tuple[float, int]] = {}
    found = []
    for level in truth:
        pairs = rng.normal(0, 1, (CASES, PAIRS)) * spreads[:, None] * np.exp(level)
        pairs *= np.where(rng.random(pairs.shape) < _OUTLIERS, 5, 1)
        logs = {case: spread for case, row in enumerate(pairs) if (spread := log_spread(row.tolist())) is not None}
        noise = run_noise(logs, {case: total / runs for case, (total, runs) in sums.items()})
        for case, spread in logs.items():
            total, runs = sums.get(case, (0.0, 0))
            if runs < REFERENCE_RUNS:
                sums[case] = total + spread - (noise or 0.0), runs + 1
        if noise is not None:
            found.append(noise)
    return found


def main() -> None:
    """Print the tables of docs/explanation/hosts.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=400)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    print("| noise from run to run | a steady host is marked after 20 runs | after 60 |")
    print("|---|---|---|")
    for name, weather in WEATHER.items():
        steady = [history(rng, weather(rng, STEADY_RUNS)) for _ in range(options.hosts)]
        marked = [sum(latest_rise(one[:runs]) is not None for one in steady) for runs in (20, STEADY_RUNS)]
        print(f"| {name} | {marked[0]} of {options.hosts} | {marked[1]} of {options.hosts} |")
    print()
    print("| after 40 runs the noise is | " + " | ".join(f"marked {delay} runs later" for delay in DELAYS) + " |")
    print("|---" * (len(DELAYS) + 1) + "|")
    for factor in (1.25, 1.5, 2.0, 3.0):
        counts = dict.fromkeys(DELAYS, 0)
        for _ in range(options.hosts // 2):
            truth = normal(rng, 40 + DELAYS[-1])
            truth[40:] += np.log(factor)
            noise = history(rng, truth)
            for delay in DELAYS:
                counts[delay] += latest_rise(noise[: 39 + delay]) is not None
        shares = " | ".join(f"{count / (options.hosts // 2):.0%}" for count in counts.values())
        print(f"| {factor:g} times as large | {shares} |")
    print()
    _print_real_spreads()
    print()
    steady, noisy = _against_others(rng, options.hosts, 1.0), _against_others(rng, options.hosts // 2, 2.0)
    print(f"Against {HOSTS_OF_A_KIND - 1} others of its kind, which differ by 10 %: a host like them is marked")
    print(f"{steady} of {options.hosts} times, one that is twice as noisy {noisy} of {options.hosts // 2} times.")


def _print_real_spreads() -> None:
    """The spread of real runs, by what else the machine did: the median over the cases of a run, least and most."""
    found: dict[str, list[float]] = {}
    for line in CALIBRATION.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        logs = [log_spread([pair[2] for pair in one.get("screening") or ()]) for one in run["comparisons"]]
        spread = np.exp(np.median([one for one in logs if one is not None]))
        found.setdefault(run["step"]["load"], []).append(float(spread))
    print("| load of a real run | runs | spread, % |")
    print("|---|---|---|")
    for load, spreads in found.items():
        print(f"| {load} | {len(spreads)} | {100 * min(spreads):.2f} to {100 * max(spreads):.2f} |")


def _against_others(rng: np.random.Generator, tries: int, factor: float) -> int:
    marked = 0
    for _ in range(tries):
        levels = rng.normal(0, 0.1, HOSTS_OF_A_KIND)
        levels[0] += np.log(factor)
        now = [level_of((level + normal(rng, 5)).tolist()) or 0.0 for level in levels]
        marked += above_others_p(now[0], now[1:]) <= OTHERS_LEVEL
    return marked


if __name__ == "__main__":
    main()
