"""By hand: kill -9 at random moments of a campaign, restarted until it is done, again and again; is anything lost?

    .venv/bin/python benchmarks/kills.py [--kills 50] [--seed N]

The campaign is repo_driver.py --regression on the small native project of tests/native_toy: two builds, a benchmark, a
verification, a bisection. Each start is killed and followed by the same command, until one comes to its end; then
the next campaign begins, on another project, until there were enough kills. One kill in three comes after a random
time, the others at a random moment of a phase that is drawn, if the start gets there: git, compile, make (an
environment), measure, tell (a run has ended and was not told yet). What a start was at is seen from its journal and
its child processes, while it is stopped just before the kill; "between" is anything else, such as its own imports.

Counted: rounds that the journal had at one kill, and that neither the journal has at the next one nor the run's report
in the end, sample by sample; reports on disk that are there twice, or that the journal has and the disk has not, or the
other way round; campaigns that did not name the culprit. Exit code 1 if any of these was seen.

It uses the project's own test modules, some processor time and no network; on two busy processors, fifty kills take
some ten minutes.
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
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "native_toy")]

from toy_driver import Outcome, ToyDriver, toy_driver  # noqa: E402
from toy_project import ToyProject  # noqa: E402

OPTIONS = ("--regression", "--build", "source", "--operators", "sum")
SLOW = "Check every sum twice"
LONGEST_S = 600.0  # of a start that nobody kills
LONGEST_INTO_S = {"git": 0.02, "compile": 0.3, "make": 0.2, "measure": 2.0, "tell": 0.005}  # a phase, before the kill


@dataclass
class MeasurementResult:
    """What all campaigns came to."""

    kills: Counter[str] = field(default_factory=Counter)  # by what was going on
    campaigns: int = 0
    reports: int = 0
    rounds_lost: int = 0
    reports_lost: int = 0
    reports_doubled: int = 0
    reports_unknown: int = 0  # on disk, but not in the journal
    not_named: int = 0
    broken: list[str] = field(default_factory=list)  # what a start said that ended in another way than by a kill

    @property
    def bad(self) -> bool:
        """Whether anything went wrong."""
        counts = self.rounds_lost, self.reports_lost, self.reports_doubled, self.reports_unknown, self.not_named
        return any(counts) or bool(self.broken)

    def lines(self) -> Iterator[str]:
        """All of it, in words."""
        by_phase = ", ".join(f"{phase} {count}" for phase, count in sorted(self.kills.items()))
        yield f"{self.kills.total()} kills in {self.campaigns} campaigns: {by_phase}"
        unknown = f"unknown to the journal {self.reports_unknown}"
        yield f"{self.reports} reports: lost {self.reports_lost}, doubled {self.reports_doubled}, {unknown}"
        yield f"kept rounds lost: {self.rounds_lost}; campaigns that did not name the commit: {self.not_named}"
        yield from (f"ended by itself: {text}" for text in self.broken)


# What the driver's children say of what it is doing: a part of their command line -> phase, the first that is found.
PHASES = (("build.sh", "compile"), ("worker/main.py", "measure"), ("inside.py", "make"), ("uv", "make"), ("git", "git"))


class Kept:
    """All that the journal was seen to hold at the moments of the kills: run -> texts of rounds."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def look(self, driver: ToyDriver) -> int:
        """Look again; returns how many rounds of runs that have not ended are there no more."""
        try:
            rows = driver.journal("SELECT run, text FROM rounds")
            ended = {run for (run,) in driver.journal("SELECT run FROM reports")}
        except sqlite3.OperationalError:  # not made yet
            return 0
        now: dict[str, set[str]] = {}
        for run, text in rows:
            now.setdefault(run, set()).add(text)
        lost = sum(len(texts - now.get(run, set())) for run, texts in self._seen.items() if run not in ended)
        for run, texts in now.items():
            self._seen.setdefault(run, set()).update(texts)
        return lost

    def missing(self, reports: Mapping[str, dict[str, Any]]) -> int:
        """How many of the rounds are not in their run's report (run -> document), sample by sample."""
        lost = 0
        for run, texts in self._seen.items():
            there = samples_of(reports[run]) if run in reports else set()
            lost += sum(not samples_of_round(json.loads(text)) <= there for text in texts)
        return lost


def samples_of(report: Mapping[str, Any]) -> set[tuple[str, int, float]]:
    """Case, round and log ratio of every sample."""
    pairs = ((one["case"], sample) for one in report["comparisons"] for sample in one["samples"])
    return {(case, sample["round"], sample["log_ratio"]) for case, sample in pairs}


def samples_of_round(entry: Mapping[str, Any]) -> set[tuple[str, int, float]]:
    """The same of a text that the journal keeps; some are no rounds."""
    samples = entry["result"]["samples"] if entry["kind"] == "round" else []
    return {(sample["case_id"], sample["round"], sample["log_ratio"]) for sample in samples}


def phase_of(driver: ToyDriver, process: int) -> str:
    """What a stopped driver is at."""
    with suppress(sqlite3.OperationalError):
        if driver.journal("SELECT key FROM outbox WHERE kind = 'run' AND state <> 'delivered'"):
            return "tell"
    words = ""
    with suppress(psutil.Error):
        words = "\n".join(" ".join(child.cmdline()) for child in psutil.Process(process).children())
    return next((phase for part, phase in PHASES if part in words), "between")


def main() -> int:
    """Run campaigns until there were enough kills; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), metavar="N", help="of the moments")
    parser.add_argument("--mean", type=float, default=4.0, metavar="SECONDS", help="until a kill (default: 4)")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    found = MeasurementResult()
    with tempfile.TemporaryDirectory(prefix="opduel-kills-") as folder:
        while found.kills.total() < options.kills:
            driver = new_campaign(Path(folder) / str(found.campaigns))
            run_campaign(driver, rng, options.mean, options.kills, found)
            shutil.rmtree(driver.cache.parent)
            print(f"{found.kills.total()} kills, {found.campaigns} campaigns", flush=True)
    print("\n".join(found.lines()))
    return 1 if found.bad else 0


def new_campaign(folder: Path) -> ToyDriver:
    """A project with a slow commit among four, and caches that are empty."""
    project = ToyProject(folder / "toy")
    project.commit("Change 1")
    project.commit(SLOW, slow={"sum": 1.6})
    project.commit("Change 3")
    return toy_driver(folder, project)


def run_campaign(driver: ToyDriver, rng: random.Random, mean_s: float, kills: int, found: MeasurementResult) -> None:
    """Start it and kill it until it ends by itself, which it may after so many kills in all."""
    kept = Kept()
    while True:
        process = driver.start(*OPTIONS)
        if found.kills.total() < kills:
            wait(driver, process, rng, mean_s)
        else:
            process.wait(LONGEST_S)
        if process.poll() is not None:
            check_end(driver, driver.end(process), kept, found)
            return
        process.send_signal(signal.SIGSTOP)  # so that it is killed at what it was seen to be at
        found.kills[phase_of(driver, process.pid)] += 1
        process.kill()
        process.wait()
        found.rounds_lost += kept.look(driver)


def wait(driver: ToyDriver, process: subprocess.Popen[str], rng: random.Random, mean_s: float) -> None:
    """Until a random time (exponentially distributed), or a random moment of a phase, or the end of the process."""
    phase = rng.choice(list(LONGEST_INTO_S)) if rng.random() < 2 / 3 else None
    if phase is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.expovariate(1 / mean_s))
        return
    while process.poll() is None and phase_of(driver, process.pid) != phase:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, LONGEST_INTO_S[phase]))


def check_end(driver: ToyDriver, outcome: Outcome, kept: Kept, found: MeasurementResult) -> None:
    """Compare what was said, the journal and the disk."""
    found.campaigns += 1
    if outcome.code != 1:
        found.broken.append(f"exit code {outcome.code}: {outcome.err.splitlines()[-1:]}")
    found.not_named += f" Ada Toymaker: {SLOW}\n" not in outcome.out
    journalled = {run: json.loads(text) for run, text in driver.journal("SELECT run, text FROM reports")}
    ids = Counter(report["run"]["id"] for report in driver.reports())
    known = {report["run"]["id"] for report in journalled.values()}
    found.reports += len(known)
    found.reports_lost += len(known - set(ids))
    found.reports_unknown += len(set(ids) - known)
    found.reports_doubled += ids.total() - len(ids)
    found.rounds_lost += kept.missing(journalled)


if __name__ == "__main__":
    raise SystemExit(main())
