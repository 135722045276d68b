#!/usr/bin/env python3
"""Measure the same cases with the same injected slowdowns by opduel and by other tools, in turn on one machine.

    .venv/bin/python benchmarks/peers.py --spec all --sample 16 --sessions 10 --inject 5% --loads quiet bursts
    .venv/bin/python benchmarks/peers.py --spec all --sample 16 --sessions 10 --inject 1% --threshold 0.25% --seconds 5
    .venv/bin/python benchmarks/peers.py --table

The seed of a session decides its cases, and which half of them is slowed, as harness.py --inject does. All tools
measure them in random order, but for paired-t, which is last, as it gets the time that opduel took. Results are
appended to --data; the same command continues where it was stopped. Tables are in Markdown.
docs/explanation/peers.md describes the tools, benchmarks/loads.py the loads.
"""

import argparse
import json
import logging
import math
import os
import platform
import random
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import yaml

from benchmarks.loads import LOADS, QUIET, load
from benchmarks.peer_tools import pairs, real_asv
from benchmarks.peer_tools.opduel_itself import opduel
from benchmarks.peer_tools.real_pyperf import pyperf
from benchmarks.peer_tools.results import Result, markdown, read_results
from benchmarks.peer_tools.trial import Bench, Tool, Trial
from benchmarks.raw_results import ROOT, append, commit_of
from opduel.commands.entry import DONE, run_command
from opduel.commands.option_types import positive, seconds, seed, share
from opduel.commands.options import Parser
from opduel.comparator import plan_looks
from opduel.driver.builds import BuildCache, load_releases
from opduel.driver.builds.environment_build import release_build
from opduel.frameworks import get_framework, worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.machine.host import host_fingerprint
from opduel.harness.measurement_plan import MeasurementPlan
from opduel.harness.specs import expand_cases, find_spec, load_spec, select_cases
from opduel.records import USUAL_ROUNDS, RunError, UsageError

DATA = ROOT / "benchmarks" / "results" / "peers.jsonl"
PINS = ROOT / "benchmarks" / "peer_tools" / "pins.yaml"
TOOLS = ("opduel", "naive", "asv", "pyperf", "benchstat", "benchstat-pairs", "tango", "paired-t")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """The options of the command line; --help describes them."""

    build: str
    spec: str
    operators: Sequence[str]
    sample: int | None
    sessions: int
    inject: Sequence[float]
    threshold: float
    seed: int
    tools: Sequence[str]
    seconds: float
    loads: Sequence[str]
    minutes: float
    data: Path
    folder: Path
    table: bool

    def make_tools(self) -> list[Tool]:
        """Return the tools of --tools, in its order."""
        tools = [
            opduel(self.threshold),
            pairs.naive(self.seconds, self.threshold),
            real_asv.asv(self.threshold),
            pyperf(),
            pairs.benchstat(self.seconds),
            pairs.benchstat_pairs(self.seconds),
            pairs.tango(self.seconds, self.threshold),
            pairs.paired_t(self.threshold),
        ]
        by_name = {tool.name: tool for tool in tools}
        return [by_name[name] for name in self.tools]


@dataclass(frozen=True)
class Session:
    """The cases that all tools measure: drawn with ``seed``, every second one slowed by ``share``, beside a load."""

    number: int
    seed: int
    share: float
    load: str

    def draw(self, bench: Bench, sample: int | None) -> Bench:
        """Return the bench with ``sample`` of its cases in their order, or with all if that is None or not fewer."""
        if sample is None or sample >= len(bench.cases):
            return bench
        chosen = set(random.Random(f"cases {self.seed}").sample([case.id for case in bench.cases], sample))
        # Brackets make an id a pattern, which matches no id that has it as a part.
        patterns = tuple(f"[{case_id[0]}]{case_id[1:]}" for case_id in sorted(chosen))
        return replace(bench, cases=[case for case in bench.cases if case.id in chosen], operators=patterns)

    def injected(self, bench: Bench) -> frozenset[str]:
        """Return the ids of the cases that harness.py --inject would slow."""
        return MeasurementPlan(bench.cases, plan_looks(USUAL_ROUNDS), 0.05, self.seed, inject=self.share).injected

    def __str__(self) -> str:
        return f"session {self.number}, +{100 * self.share:g} %, {self.load}"

    @property
    def file_name(self) -> str:
        """The name of its folder."""
        return f"{self.number}-{self.share:g}-{self.load}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, unless only the table is printed, and print the tables; return the exit code."""
    settings = Settings(**vars(_parser().parse_args(arguments)))
    failures = 0 if settings.table else measure(settings)
    results = read_results(settings.data)
    if not results:
        raise UsageError(f"--data {settings.data}: holds no result: run without --table first")
    for (spec, place, slowdown, cases), group in groupby(sorted(results, key=_table_key), key=_table_key):
        share = -slowdown
        slowed = f"half slowed by {100 * share:g} %" if share else "none slowed"
        print(f"Spec: {spec}, load: {[*LOADS][place]}, {-cases} cases a session, {slowed}\n")
        print(f"{markdown(group, share)}\n")
    if failures:
        raise RunError(f"{failures} measurements failed; the same command tries them again")
    return DONE


def _table_key(result: Result) -> tuple[str, int, float, int]:
    """Return what has a table of its own: spec, place of the load among all, slowdown (the largest first), cases."""
    return result.spec, [*LOADS].index(result.load), -result.share, -len(result.cases)


def measure(settings: Settings) -> int:
    """Measure what is missing, as long as there is time; return the number of tools and sessions that failed."""
    deadline = time.monotonic() + 60 * settings.minutes
    tools = settings.make_tools()
    full_bench = make_bench(settings)
    if "asv" in settings.tools:
        real_asv.make_environment(full_bench)
    seconds_of = {result.key: result.seconds for result in read_results(settings.data)}
    failures = 0
    for session in sessions_of(settings):
        bench = session.draw(full_bench, settings.sample)
        cases = tuple(sorted(case.id for case in bench.cases))
        key_of_bench = (bench.release, bench.spec, session.seed, session.share, session.load, cases)
        key_of_opduel = (session.number, "opduel", opduel(settings.threshold).settings, *key_of_bench)
        order = random.Random(f"order {session}").sample(tools, len(tools))
        for tool in sorted(order, key=lambda tool: tool.name == "paired-t"):
            key = (session.number, tool.name, tool.settings, *key_of_bench)
            if key in seconds_of:
                continue
            if time.monotonic() >= deadline:
                return failures
            folder = settings.folder / "work" / f"{session.file_name}-{tool.name}"
            try:
                result = run_tool(tool, bench, session, folder, seconds_of.get(key_of_opduel))
            except (RunError, ValueError) as error:
                log.warning("%s, %s: %s", session, tool.name, error)
                failures += 1
            else:
                append(settings.data, json.dumps(asdict(result)))
                seconds_of[key] = result.seconds
                log.info("%s, %s: %.1f s a case", session, tool.name, result.seconds / len(cases))
    return failures


def make_bench(settings: Settings) -> Bench:
    """Return the cases, and a build that holds the release, asv and pyperf.

    Raises:
        OpduelError: as harness.py does.
    """
    spec = load_spec(find_spec(settings.spec))
    cases = expand_cases(spec)
    if settings.operators:
        cases = select_cases(cases, settings.operators)
    if len(cases) < 2:
        raise UsageError("--operators: one case of two is slowed: give it two cases or more")
    framework = get_framework(spec.framework)
    not_forkable = [case.id for case in cases if not framework.can_fork(1, case.context)]
    if not_forkable:
        raise UsageError(f"--spec {settings.spec}: {not_forkable[0]} can't be measured in a fork; leave such cases out")
    package, _, version = settings.build.partition("==")
    recipe = load_releases(framework).recipe(package, version)
    pins_of_peers = yaml.safe_load(PINS.read_text(encoding="utf-8"))
    cache = BuildCache()
    build = release_build(settings.build, replace(recipe, pins={**recipe.pins, **pins_of_peers}), framework, cache)
    return Bench(
        build=build,
        release=recipe.request,
        requirements={recipe.package: recipe.version, **recipe.pins},
        adaptor=framework.adaptor,
        environment={**worker_environment(), **framework.environment(1)},
        cpus=plan_cpus(1),
        spec=settings.spec,
        operators=tuple(settings.operators),
        cases=cases,
        cache=cache.directory.parent / "peers",
    )


def sessions_of(settings: Settings) -> list[Session]:
    """Return all sessions in their order."""
    return [
        Session(number, settings.seed + number, share, load)
        for number in range(settings.sessions)
        for share in settings.inject
        for load in settings.loads
    ]


def run_tool(tool: Tool, bench: Bench, session: Session, folder: Path, opduel_seconds: float | None) -> Result:
    """Run one tool in one session; recreate ``folder`` for its files.

    Raises:
        RunError: it could not be run.
        ValueError: its output could not be read.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    injected = session.injected(bench)
    with load(session.load):
        started, start, commit = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic(), commit_of()
        answers = tool.measure(Trial(bench, session.seed, session.share, injected, folder, opduel_seconds))
        wall_s = time.monotonic() - start
    host = {
        "cpus": sorted(os.sched_getaffinity(0)),
        "cpu_model": host_fingerprint().cpu_model,
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
    }
    return Result(
        session=session.number,
        tool=tool.name,
        settings=tool.settings,
        build=bench.release,
        spec=bench.spec,
        seed=session.seed,
        share=session.share,
        injected=sorted(injected),
        seconds=wall_s,
        answers=answers,
        host=host,
        load=session.load,
        started=started,
        commit=commit,
    )


def _tool_names(text: str) -> Sequence[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in TOOLS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is unknown: use some of {', '.join(TOOLS)}")
    return names


def _parser() -> Parser:
    parser = Parser(
        prog="peers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--build", default="mxnet==1.9.1", help="the release on both sides; default: %(default)s")
    add("--spec", default="smoke", help="default: %(default)s")
    add("--operators", action="append", default=[], metavar="PATTERN", help="as harness.py's; repeatable")
    add("--sample", type=positive, metavar="N", help="cases of each session, drawn at random; default: all")
    add("--sessions", type=positive, default=1, help="for each share and load; default: %(default)s")
    add("--inject", type=share, nargs="+", default=[0.05], metavar="SHARE", help="default: 0.05")
    add(
        "--threshold",
        type=share,
        default=0.02,
        metavar="SHARE",
        help="of opduel, paired-t, asv's second factor, the strict naive rule, and tango below 1%%; default: 2%%",
    )
    add("--seed", type=seed, default=1, help="of the first session; the next one has the next seed")
    add("--tools", type=_tool_names, default=TOOLS, help=f"names with commas; default: {','.join(TOOLS)}")
    add(
        "--seconds",
        type=seconds,
        default=3.0,
        help="of timed calls a case, of naive, benchstat and tango; default: %(default)s",
    )
    add("--loads", nargs="+", choices=LOADS, default=[QUIET], help="beside the sessions; default: quiet")
    add("--minutes", type=float, default=math.inf, help="no tool begins later; default: no limit")
    add("--data", type=Path, default=DATA, metavar="FILE", help=f"default: {DATA.relative_to(ROOT)}")
    add("--folder", type=Path, default=Path("reports/peers"), help="for the tools' files; default: %(default)s")
    add("--table", action="store_true", help="measure nothing; print the tables of the results")
    return parser


if __name__ == "__main__":
    sys.exit(run_command("peers.py", main))
