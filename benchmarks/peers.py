#!/usr/bin/env python3
"""Measure the same cases with the same injected slowdowns by opduel and by other tools, in turn on one machine.

    .venv/bin/python benchmarks/peers.py --spec all --sample 16 --sessions 10 --inject 5% --loads quiet bursts
    .venv/bin/python benchmarks/peers.py --spec all --sample 16 --sessions 10 --inject 1% --threshold 0.25% --seconds 5
    .venv/bin/python benchmarks/peers.py --table

Both sides are MXNet 1.9.1. The seed of a session decides its cases, and which half of them is slowed, as harness.py
--inject does. All tools measure them in random order, but for paired-t, which is last, as it gets the time that opduel
took. Results are appended to --data; the same command continues where it was stopped. Tables are in Markdown.
docs/explanation/peers.md describes the tools, benchmarks/loads.py the loads.
"""

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench import MXNET, ROOT, make_bench
from benchmarks.loads import LOADS, QUIET, load
from benchmarks.peer_tools import pairs
from benchmarks.peer_tools.opduel_itself import opduel
from benchmarks.peer_tools.results import Result, markdown, read_results
from benchmarks.peer_tools.trial import Tool, Trial
from benchmarks.raw_results import append, commit_of
from opduel.commands.entry import DONE, run_command
from opduel.commands.option_types import positive, seconds, seed, share
from opduel.commands.options import Parser
from opduel.comparator import plan_looks
from opduel.harness.machine.host import host_fingerprint
from opduel.harness.measurement_plan import MeasurementPlan
from opduel.harness.processes.pair_pool import Bench
from opduel.records import USUAL_ROUNDS, Case, UsageError

DATA = ROOT / "benchmarks" / "results" / "peers.jsonl"
TOOLS = ("opduel", "naive", "benchstat", "benchstat-pairs", "tango", "paired-t")


@dataclass(frozen=True)
class Settings:
    """The options of the command line; --help describes them."""

    spec: str
    sample: int
    sessions: int
    inject: float
    threshold: float
    seed: int
    tools: Sequence[str]
    seconds: float
    loads: Sequence[str]
    data: Path
    table: bool

    def make_tools(self) -> dict[str, Tool]:
        """Return the tools of --tools by name."""
        tools = [
            opduel(self.threshold),
            pairs.naive(self.seconds, self.threshold),
            pairs.benchstat(self.seconds),
            pairs.benchstat_pairs(self.seconds),
            pairs.tango(self.seconds, self.threshold),
            pairs.paired_t(self.threshold),
        ]
        return {tool.name: tool for tool in tools if tool.name in self.tools}


@dataclass(frozen=True)
class Session:
    """The cases that all tools measure: drawn with ``seed``, every second one slowed by ``share``, beside a load."""

    number: int
    seed: int
    spec: str
    share: float
    load: str

    def draw(self, cases: Sequence[Case], sample: int) -> list[Case]:
        """Return so many of the cases in their order, or all if there are not more."""
        if sample >= len(cases):
            return list(cases)
        chosen = set(random.Random(f"cases {self.seed}").sample([case.id for case in cases], sample))
        return [case for case in cases if case.id in chosen]

    def injected(self, cases: Sequence[Case]) -> frozenset[str]:
        """Return the ids of the cases that harness.py --inject would slow."""
        return MeasurementPlan(cases, plan_looks(USUAL_ROUNDS), 0.05, self.seed, inject=self.share).injected

    def key_of(self, tool: Tool, cases: Sequence[Case]) -> tuple[object, ...]:
        """Return the ``Result.key`` of what the tool measures in the session."""
        case_ids = tuple(sorted(case.id for case in cases))
        return self.number, tool.name, tool.settings, MXNET, self.spec, self.seed, self.share, self.load, case_ids

    def __str__(self) -> str:
        return f"session {self.number}, +{100 * self.share:g} %, {self.load}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, unless only the table is printed, and print the tables; return the exit code."""
    settings = Settings(**vars(_parser().parse_args(arguments)))
    if not settings.table:
        measure(settings)
    results = read_results(settings.data)
    if not results:
        raise UsageError(f"--data {settings.data}: holds no result: run without --table first")
    for (spec, place, slowdown, cases), group in groupby(sorted(results, key=_table_key), key=_table_key):
        share = -slowdown
        slowed = f"half slowed by {100 * share:g} %" if share else "none slowed"
        print(f"Spec: {spec}, load: {[*LOADS][place]}, {-cases} cases a session, {slowed}\n")
        print(f"{markdown(group, share)}\n")
    return DONE


def _table_key(result: Result) -> tuple[str, int, float, int]:
    """Return what has a table of its own: spec, place of the load among all, slowdown (the largest first), cases."""
    return result.spec, [*LOADS].index(result.load), -result.share, -len(result.cases)


def measure(settings: Settings) -> None:
    """Measure what is missing.

    Raises:
        RunError: a tool could not be run; the same command tries it again.
    """
    tools = settings.make_tools()
    bench, all_cases = make_bench(MXNET, settings.spec)
    seconds_of: dict[tuple[object, ...], float] = {result.key: result.seconds for result in read_results(settings.data)}
    for number, load_name in product(range(settings.sessions), settings.loads):
        session = Session(number, settings.seed + number, settings.spec, settings.inject, load_name)
        cases = session.draw(all_cases, settings.sample)
        opduel_key = session.key_of(opduel(settings.threshold), cases)
        order = random.Random(f"order {session}").sample(list(tools.values()), len(tools))
        for tool in sorted(order, key=lambda tool: tool.name == "paired-t"):
            key = session.key_of(tool, cases)
            if key not in seconds_of:
                result = run_tool(tool, bench, cases, session, seconds_of.get(opduel_key))
                append(settings.data, json.dumps(asdict(result)))
                seconds_of[key] = result.seconds


def run_tool(tool: Tool, bench: Bench, cases: Sequence[Case], session: Session, opduel_seconds: float | None) -> Result:
    """Run one tool in one session.

    Raises:
        RunError: it could not be run.
    """
    injected = session.injected(cases)
    trial = Trial(bench, session.spec, cases, session.seed, session.share, injected, opduel_seconds)
    with load(session.load):
        started, start, commit = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic(), commit_of()
        answers = tool.measure(trial)
        wall_s = time.monotonic() - start
    return Result(
        session=session.number,
        tool=tool.name,
        settings=tool.settings,
        build=MXNET,
        spec=session.spec,
        seed=session.seed,
        share=session.share,
        injected=sorted(injected),
        seconds=wall_s,
        answers=answers,
        host={
            "cpus": sorted(os.sched_getaffinity(0)),
            "cpu_model": host_fingerprint().cpu_model,
            "kernel": platform.release(),
            "load": os.getloadavg()[0],
        },
        load=session.load,
        started=started,
        commit=commit,
    )


def _tool_names(text: str) -> Sequence[str]:
    names = text.split(",")
    if not set(names) <= set(TOOLS):
        raise argparse.ArgumentTypeError(f"{text!r}: use some of {','.join(TOOLS)}")
    return names


def _parser() -> Parser:
    parser = Parser(
        prog="peers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--spec", default="smoke", help="default: %(default)s")
    add("--sample", type=positive, default=40, help="cases of each session, drawn at random; default: %(default)s")
    add("--sessions", type=positive, default=1, help="for each load; default: %(default)s")
    add("--inject", type=share, default=0.05, metavar="SHARE", help="default: 5%%")
    of_tools = "of opduel, paired-t, the strict naive rule, and tango below 1%%; default: 2%%"
    add("--threshold", type=share, default=0.02, metavar="SHARE", help=of_tools)
    add("--seed", type=seed, default=1, help="of the first session; the next one has the next seed")
    add("--tools", type=_tool_names, default=TOOLS, help=f"names with commas; default: {','.join(TOOLS)}")
    of_calls = "of timed calls a case, of naive, benchstat and tango; default: %(default)s"
    add("--seconds", type=seconds, default=3.0, help=of_calls)
    add("--loads", nargs="+", choices=LOADS, default=[QUIET], help="beside the sessions; default: quiet")
    add("--data", type=Path, default=DATA, metavar="FILE", help=f"default: {DATA.relative_to(ROOT)}")
    add("--table", action="store_true", help="measure nothing; print the tables of the results")
    return parser


if __name__ == "__main__":
    sys.exit(run_command("peers.py", main))
