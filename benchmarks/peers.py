#!/usr/bin/env python3
"""The same cases, the same injected slowdowns, the same machine: what other tools' procedures say, and what ours does.

    .venv/bin/python benchmarks/peers.py --spec all --sample 16 --sessions 10 --inject 5% --loads quiet bursts
    .venv/bin/python benchmarks/peers.py --spec all --sample 16 --sessions 10 --inject 1% --threshold 0.25% --seconds 5
    .venv/bin/python benchmarks/peers.py --table --markdown

A session draws from its seed its cases and which of them are slowed, one of every two, as harness.py --inject does, and
runs every tool on them, in random order, but for paired-t: last, as it gets the time that opduel took. Results are
appended to --data; what is there is not done again, so a run that was stopped goes on where it was.
docs/explanation/peers.md says what each tool is, benchmarks/loads.py what each load.
"""

import argparse
import logging
import math
import os
import platform
import random
import shutil
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402

from benchmarks.loads import LOADS, QUIET, load  # noqa: E402
from benchmarks.peer_tools.ours import Ours  # noqa: E402
from benchmarks.peer_tools.pairs import Benchstat, BenchstatPairs, Naive, PairedT, Tango  # noqa: E402
from benchmarks.peer_tools.real_asv import Asv  # noqa: E402
from benchmarks.peer_tools.real_pyperf import Pyperf  # noqa: E402
from benchmarks.peer_tools.results import Result, append_result, read_results  # noqa: E402
from benchmarks.peer_tools.table import markdown, plain, rows_of  # noqa: E402
from benchmarks.peer_tools.trial import Bench, Tool, Trial  # noqa: E402
from benchmarks.raw_results import commit_of  # noqa: E402
from opduel.commands import options as kinds  # noqa: E402
from opduel.commands.entry import DONE, run_command  # noqa: E402
from opduel.comparator import plan_looks  # noqa: E402
from opduel.driver.builds import BuildCache, load_releases  # noqa: E402
from opduel.driver.builds.environment_build import release_build  # noqa: E402
from opduel.frameworks import get_framework, worker_environment  # noqa: E402
from opduel.harness.cpus import plan_cpus  # noqa: E402
from opduel.harness.host import host_fingerprint  # noqa: E402
from opduel.harness.schedule import MeasurementPlan  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec, select_cases  # noqa: E402
from opduel.records import USUAL_ROUNDS, RunError, UsageError  # noqa: E402

DATA = ROOT / "benchmarks" / "results" / "peers.jsonl"
PINS = ROOT / "benchmarks" / "peer_tools" / "pins.yaml"
THRESHOLD = 0.02  # harness.py's default
ON_REQUEST = ("pyperf-defaults", "opduel-default")  # some 80 s a case; on a quiet machine the same as opduel

log = logging.getLogger(__name__)


def tools_of(options: argparse.Namespace) -> dict[str, Tool]:
    """Every tool there is, by name, with the settings that were asked for."""
    tools: list[Tool] = [
        Ours(options.threshold),
        Ours(options.threshold, by_default=True),
        Naive(options.seconds, options.threshold),
        Asv("asv", options.asv_rounds, options.threshold),
        Pyperf("pyperf", options.pyperf_options.split()),
        Pyperf("pyperf-defaults", ()),
        Benchstat(options.seconds, options.runs),
        BenchstatPairs(options.seconds, options.runs),
        Tango(options.seconds, options.threshold),
        PairedT(options.threshold),
    ]
    return {tool.name: tool for tool in tools}


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = kinds.Parser(
        prog="peers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--build", default="mxnet==1.9.1", help="the release on both sides; default: %(default)s")
    made.add_argument("--spec", default="smoke", help="default: %(default)s")
    made.add_argument("--operators", action="append", default=[], metavar="PATTERN", help="as harness.py's; repeatable")
    made.add_argument("--sample", type=kinds.positive, metavar="N", help="so many of them, drawn for each session")
    made.add_argument(
        "--sessions", type=kinds.positive, default=1, help="sessions for each share; default: %(default)s"
    )
    made.add_argument("--inject", type=kinds.share, nargs="+", default=[0.05], metavar="SHARE", help="default: 0.05")
    made.add_argument(
        "--threshold",
        type=kinds.share,
        default=THRESHOLD,
        metavar="SHARE",
        help="of opduel, of paired-t, of asv's second factor, of the strict naive rule, and of tango's if smaller than "
        "its own; default: 2%%",
    )
    made.add_argument("--seed", type=kinds.seed, default=1, help="of the first session; the next has the next")
    made.add_argument("--tools", help=f"names with commas; default: all but {' and '.join(ON_REQUEST)}")
    made.add_argument(
        "--seconds",
        type=kinds.seconds,
        default=3.0,
        help="timed a case by naive, benchstat and tango; default: %(default)s",
    )
    made.add_argument("--runs", type=kinds.rounds, default=10, help="values a side for benchstat; default: %(default)s")
    made.add_argument("--asv_rounds", type=kinds.positive, default=2, help="default: asv's own, 2")
    made.add_argument(
        "--pyperf_options", default="--processes 3", help="of pyperf's runner, in one word; default: %(default)r"
    )
    made.add_argument("--loads", nargs="+", choices=LOADS, default=[QUIET], help="beside the sessions; default: quiet")
    made.add_argument("--minutes", type=float, default=math.inf, help="no tool begins later; default: no limit")
    made.add_argument("--data", type=Path, default=DATA, metavar="FILE", help=f"default: {DATA.relative_to(ROOT)}")
    made.add_argument(
        "--folder", type=Path, default=Path("reports/peers"), help="for what tools write; default: %(default)s"
    )
    made.add_argument("--table", action="store_true", help="measure nothing; print the table of what is there")
    made.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    return made


def make_bench(options: argparse.Namespace) -> Bench:
    """The cases, and a build that holds the release, asv and pyperf.

    Raises:
        OpduelError: as harness.py's.
    """
    spec = load_spec(find_spec(options.spec))
    cases = expand_cases(spec)
    if options.operators:
        cases = select_cases(cases, options.operators)
    if len(cases) < 2:
        raise UsageError("--operators: one case of two is slowed: give it two cases or more")
    framework = get_framework(spec.framework)
    lonely = [case.id for case in cases if not framework.can_fork(1, case.context)]
    if lonely:
        raise UsageError(f"--spec {options.spec}: {lonely[0]} can't be measured in a fork; leave such cases out")
    package, _, version = options.build.partition("==")
    recipe = load_releases(framework).recipe(package, version)
    peers = yaml.safe_load(PINS.read_text(encoding="utf-8"))
    cache = BuildCache()
    with_peers = replace(recipe, pins={**recipe.pins, **peers})
    build = release_build(options.build, with_peers, framework, cache)
    return Bench(
        build=build,
        release=recipe.request,
        requirements={recipe.package: recipe.version, **recipe.pins},
        adaptor=framework.adaptor,
        environment={**worker_environment(), **framework.environment(1)},
        cpus=plan_cpus(1),
        spec=options.spec,
        operators=tuple(options.operators),
        cases=cases,
        cache=cache.directory.parent / "peers",
    )


@dataclass(frozen=True)
class Session:
    """Which cases are slowed follows from ``seed``; by how much is ``share``."""

    number: int
    seed: int
    share: float
    load: str

    def drawn(self, bench: Bench, sample: int | None) -> Bench:
        """With ``sample`` of its cases, in their order; all if that is None or there are no more."""
        if sample is None or sample >= len(bench.cases):
            return bench
        chosen = set(random.Random(f"cases {self.seed}").sample([case.id for case in bench.cases], sample))
        patterns = tuple(f"[{name[0]}]{name[1:]}" for name in sorted(chosen))  # no other id has these as a part
        return replace(bench, cases=[case for case in bench.cases if case.id in chosen], operators=patterns)

    def injected(self, bench: Bench) -> frozenset[str]:
        """The ids of the cases that harness.py --inject would slow."""
        return MeasurementPlan(bench.cases, plan_looks(USUAL_ROUNDS), 0.05, self.seed, inject=self.share).injected

    def __str__(self) -> str:
        return f"session {self.number}, +{100 * self.share:g} %, {self.load}"

    @property
    def file_name(self) -> str:
        """Of its folder."""
        return f"{self.number}-{self.share:g}-{self.load}"


def sessions_of(options: argparse.Namespace) -> list[Session]:
    """In the order in which they are run."""
    numbers = range(options.sessions)
    return [
        Session(number, options.seed + number, share, load)
        for number in numbers
        for share in options.inject
        for load in options.loads
    ]


def run_tool(tool: Tool, bench: Bench, session: Session, folder: Path, seconds: float | None) -> Result:
    """One tool in one session; ``folder`` is recreated for what it writes, ``seconds`` as in ``Trial``.

    Raises:
        RunError: it could not be run.
        ValueError: what it said could not be read.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    injected = session.injected(bench)
    with load(session.load):
        started, began, commit = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic(), commit_of()
        answers = tool.measure(Trial(bench, session.seed, session.share, injected, folder, seconds))
        taken_s = time.monotonic() - began
    return Result(
        session=session.number,
        tool=tool.name,
        settings=tool.settings,
        origin=tool.origin,
        build=bench.release,
        spec=bench.spec,
        seed=session.seed,
        share=session.share,
        injected=sorted(injected),
        seconds=taken_s,
        answers=answers,
        host={
            "cpus": sorted(os.sched_getaffinity(0)),
            "cpu_model": host_fingerprint()["cpu_model"],
            "kernel": platform.release(),
            "load": os.getloadavg()[0],
        },
        load=session.load,
        started=started,
        commit=commit,
    )


def measure(options: argparse.Namespace) -> int:
    """All sessions, as long as there is time; a tool that fails costs its own result and no other's. Returns the number
    of failures."""
    ends = time.monotonic() + 60 * options.minutes
    tools = chosen_tools(options)
    every = make_bench(options)
    for tool in tools:
        tool.set_up(every)
    seconds_of = {result.key: result.seconds for result in read_results(options.data)}
    failures = 0
    for session in sessions_of(options):
        bench = session.drawn(every, options.sample)
        cases = tuple(sorted(case.id for case in bench.cases))
        of_bench = (bench.release, bench.spec, session.seed, session.share, session.load, cases)
        ours = (session.number, "opduel", Ours(options.threshold).settings, *of_bench)
        order = random.Random(f"order {session}").sample(tools, len(tools))
        for tool in sorted(order, key=lambda tool: isinstance(tool, PairedT)):  # which takes as long as opduel did
            key = (session.number, tool.name, tool.settings, *of_bench)
            if key in seconds_of:
                continue
            if time.monotonic() >= ends:
                return failures
            folder = options.folder / "work" / f"{session.file_name}-{tool.name}"
            try:
                result = run_tool(tool, bench, session, folder, seconds_of.get(ours))
            except (RunError, ValueError) as error:
                log.warning("%s, %s: %s", session, tool.name, error)
                failures += 1
            else:
                append_result(options.data, result)
                seconds_of[key] = result.seconds
                log.info("%s, %s: %.1f s a case", session, tool.name, result.seconds / len(cases))
    return failures


def chosen_tools(options: argparse.Namespace) -> list[Tool]:
    """Those of --tools.

    Raises:
        UsageError: one is not known.
    """
    known = tools_of(options)
    names = options.tools.split(",") if options.tools else [name for name in known if name not in ON_REQUEST]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"--tools: {unknown[0]!r} is not known: use some of {', '.join(known)}")
    return [known[name] for name in names]


def _group(result: Result) -> tuple[str, int, float, int]:
    """What has a table of its own: spec, place of the load among all, slowdown (the largest first), cases a session."""
    return result.spec, [*LOADS].index(result.load), -result.share, -len(result.cases)


def _heading(spec: str, place: int, slowed: float, cases: int) -> str:
    slowdown = f"half slowed by {-100 * slowed:g} %" if slowed else "none slowed"
    return f"Spec: {spec}, load: {[*LOADS][place]}, {-cases} cases a session, {slowdown}"


def main() -> int:
    """Measure unless only the table is wanted; print the table."""
    options = parser().parse_args()
    failures = 0 if options.table else measure(options)
    results = read_results(options.data)
    if not results:
        raise UsageError(f"--data {options.data}: holds no result: run without --table first")
    for group, rows in groupby(sorted(results, key=_group), key=_group):
        print(f"{_heading(*group)}\n\n{(markdown if options.markdown else plain)(rows_of(rows))}\n")
    if failures:
        raise RunError(f"{failures} measurements failed; the same command tries them again")
    return DONE


if __name__ == "__main__":
    sys.exit(run_command("peers.py", main))
