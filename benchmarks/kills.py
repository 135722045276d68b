#!/usr/bin/env python3
"""Kill a driver at random moments, restart it until it is done, and count what was lost.

    .venv/bin/python benchmarks/kills.py [--kills 50] [--seed N]

A campaign is ``repo_driver.py --regression`` on the small native project of tests/native_toy: builds, a benchmark, a
verification, a bisection. Each start is killed, and the same command started again, until one comes to its end; then
the next campaign begins on another project, until there were enough kills. One kill in three comes after a random
time, the others at a random moment of a random phase: git, compile, environment, measure, report (a run has ended and
is not yet delivered). The driver's journal and its child processes show its phase; "other" is anything else.

Counted are samples that the journal held at a kill and the run's report lacks, reports that are missing, doubled, or
unknown to the journal, and campaigns that did not name the culprit. Exit code 1 if there was any of these.
Fifty kills take some ten minutes on two busy processors, and no network.
"""

import argparse
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "native_toy")]

from toy_driver import Outcome, ToyDriver, toy_driver  # noqa: E402
from toy_project import ToyProject  # noqa: E402

OPTIONS = ("--regression", "--build", "source", "--operators", "sum")
SLOW_COMMIT = "Check every sum twice"
LONGEST_S = 600.0  # of a start that nobody kills
MEAN_S = 4.0  # until a kill at a random time
# By phase: the longest time into it after which the driver is killed.
LONGEST_INTO_S = {"git": 0.02, "compile": 0.3, "environment": 0.2, "measure": 2.0, "report": 0.005}
KILLED = "killed in phase "  # of the counts
LOSSES = (
    *("samples lost", "reports lost", "reports doubled", "reports unknown to the journal", "culprits missed"),
    "starts that failed",
)
# Parts of the command lines of the driver's children -> its phase; the first match counts.
PHASE_BY_COMMAND = {
    "build.sh": "compile",
    "worker/main.py": "measure",
    "inside.py": "environment",
    "uv": "environment",
    "git": "git",
}


Sample = tuple[str, int, float]  # case, round and log ratio


def journalled_samples(driver: ToyDriver) -> dict[str, set[Sample]]:
    """Return the samples of the rounds that the journal holds, by run."""
    samples: dict[str, set[Sample]] = defaultdict(set)
    with suppress(sqlite3.OperationalError):  # the journal has no tables yet
        for run, text in driver.journal("SELECT run, text FROM rounds"):
            entry = json.loads(text)  # which need not be a round
            of_round = entry["result"]["samples"] if entry["kind"] == "round" else []
            samples[run] |= {(sample["case_id"], sample["round"], sample["log_ratio"]) for sample in of_round}
    return samples


def samples_of_report(report: Mapping[str, Any]) -> set[Sample]:
    """Return all samples of a report's document."""
    return {
        (comparison["case"], sample["round"], sample["log_ratio"])
        for comparison in report["comparisons"]
        for sample in comparison["samples"]
    }


def phase_of(driver: ToyDriver, process_id: int) -> str:
    """Return the driver's phase."""
    with suppress(sqlite3.OperationalError):
        if driver.journal("SELECT key FROM outbox WHERE kind = 'run' AND state <> 'delivered'"):
            return "report"
    commands = ""
    with suppress(psutil.Error):
        commands = "\n".join(" ".join(child.cmdline()) for child in psutil.Process(process_id).children())
    return next((phase for part, phase in PHASE_BY_COMMAND.items() if part in commands), "other")


def main() -> int:
    """Run campaigns until there were enough kills; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), metavar="N", help="of the moments")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    counts: Counter[str] = Counter(dict.fromkeys(("campaigns", "reports", *LOSSES), 0))
    with tempfile.TemporaryDirectory(prefix="opduel-kills-") as folder:
        while kills_in(counts) < options.kills:
            driver = new_campaign(Path(folder) / str(counts["campaigns"]))
            run_campaign(driver, rng, options.kills, counts)
            shutil.rmtree(driver.cache.parent)
            print(f"{kills_in(counts)} kills, {counts['campaigns']} campaigns", flush=True)
    print("\n".join(f"{name}: {count}" for name, count in counts.items()))
    return 1 if any(counts[name] for name in LOSSES) else 0


def kills_in(counts: Counter[str]) -> int:
    """Return all kills, which are counted by phase."""
    return sum(count for name, count in counts.items() if name.startswith(KILLED))


def new_campaign(folder: Path) -> ToyDriver:
    """Return a driver with empty caches, on a project with a slow commit among four."""
    project = ToyProject(folder / "toy")
    project.commit("Change 1")
    project.commit(SLOW_COMMIT, slow={"sum": 1.6})
    project.commit("Change 3")
    return toy_driver(folder, project)


def run_campaign(driver: ToyDriver, rng: random.Random, kills: int, counts: Counter[str]) -> None:
    """Start the driver and kill it until it ends by itself; let it end once there were ``kills`` in all."""
    samples_at_kills: dict[str, set[Sample]] = defaultdict(set)
    while True:
        process = driver.start(*OPTIONS)
        if kills_in(counts) < kills:
            wait_for_kill(driver, process, rng)
        else:
            process.wait(LONGEST_S)
        if process.poll() is not None:
            check_end(driver, driver.end(process), samples_at_kills, counts)
            return
        process.send_signal(signal.SIGSTOP)  # so that it doesn't leave the phase that is counted
        counts[KILLED + phase_of(driver, process.pid)] += 1
        process.kill()
        process.wait()
        for run, samples in journalled_samples(driver).items():
            samples_at_kills[run] |= samples


def wait_for_kill(driver: ToyDriver, process: subprocess.Popen[str], rng: random.Random) -> None:
    """Wait for an exponentially distributed time, or for a random moment of a phase, or for the end of the process."""
    if rng.random() < 1 / 3:
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.expovariate(1 / MEAN_S))
        return
    phase, longest_s = rng.choice([*LONGEST_INTO_S.items()])
    while process.poll() is None and phase_of(driver, process.pid) != phase:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, longest_s))


def check_end(
    driver: ToyDriver, outcome: Outcome, samples_at_kills: Mapping[str, set[Sample]], counts: Counter[str]
) -> None:
    """Compare the output, the journal and the reports on disk."""
    counts["campaigns"] += 1
    if outcome.code != 1:
        counts["starts that failed"] += 1
        print(f"exit code {outcome.code}: {outcome.err.splitlines()[-1:]}", flush=True)
    counts["culprits missed"] += f" Ada Toymaker: {SLOW_COMMIT}\n" not in outcome.out
    journalled = {run: json.loads(text) for run, text in driver.journal("SELECT run, text FROM reports")}
    on_disk = Counter(report["run"]["id"] for report in driver.reports())
    in_journal = {report["run"]["id"] for report in journalled.values()}
    counts["reports"] += len(in_journal)
    counts["reports lost"] += len(in_journal - set(on_disk))
    counts["reports unknown to the journal"] += len(set(on_disk) - in_journal)
    counts["reports doubled"] += on_disk.total() - len(on_disk)
    for run, samples in samples_at_kills.items():
        reported = samples_of_report(journalled[run]) if run in journalled else set()
        counts["samples lost"] += len(samples - reported)


if __name__ == "__main__":
    raise SystemExit(main())
