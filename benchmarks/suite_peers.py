#!/usr/bin/env python3
"""The same benchmarks of an asv suite on the same release, by asv itself and by opduel: what each says of slowed ones.

    .venv/bin/python benchmarks/suite_peers.py --suite ~/numpy@v2.2.6:benchmarks --bench bench_reduce --sessions 2
    .venv/bin/python benchmarks/suite_peers.py --table --markdown

Both sides are --release. In each session half of the benchmarks, drawn from the seed, work longer on the treatment by
--inject, in the suite's own code (peer_tools/slowed_suite.py), so that both tools measure the same. The two take turns
in an order drawn for each session. Results are appended to results.jsonl in --folder; what is there is not done again.
"""

import argparse
import json
import logging
import os
import platform
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402
from uv import find_uv_bin  # noqa: E402

from benchmarks.peer_tools import real_asv  # noqa: E402
from benchmarks.peer_tools.ours import ANSWERS, HARNESS, TIMEOUT_S  # noqa: E402
from benchmarks.peer_tools.programs import run_program  # noqa: E402
from benchmarks.peer_tools.results import Result, append_result, read_results  # noqa: E402
from benchmarks.peer_tools.table import markdown, plain, rows_of  # noqa: E402
from benchmarks.peer_tools.trial import Answers  # noqa: E402
from opduel.commands import options as kinds  # noqa: E402
from opduel.commands.entry import DONE, run_command  # noqa: E402
from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.driver.suites.discovery import SuiteCase, all_cases, discover  # noqa: E402
from opduel.driver.suites.source import copy_suite, open_suite  # noqa: E402
from opduel.frameworks import Framework, get_framework, worker_environment  # noqa: E402
from opduel.harness.cpus import plan_cpus  # noqa: E402
from opduel.records import Build, UsageError  # noqa: E402
from opduel.reporters import read_report  # noqa: E402

THRESHOLD = 0.02  # harness.py's default
PINS = ROOT / "benchmarks" / "peer_tools" / "pins.yaml"
WRAPPER = ROOT / "benchmarks" / "peer_tools" / "slowed_suite.py"
APPENDED = "\nfrom . import _opduel_slowed\n_opduel_slowed.wrap(globals())\n"
SIDES = ("control", "treatment")

log = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = kinds.Parser(
        prog="suite_peers.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--suite", help="as harness.py's")
    made.add_argument("--bench", action="append", default=[], metavar="REGEX", help="as harness.py's; repeatable")
    made.add_argument("--release", default="numpy==2.2.6", help="on both sides; default: %(default)s")
    made.add_argument("--sessions", type=kinds.positive, default=1, help="default: %(default)s")
    made.add_argument("--inject", type=kinds.share, default=0.05, metavar="SHARE", help="default: %(default)s")
    made.add_argument("--seed", type=kinds.seed, default=1, help="of the first session; the next has the next")
    made.add_argument("--asv_rounds", type=kinds.positive, default=2, help="default: asv's own, 2")
    made.add_argument("--folder", type=Path, default=Path("reports/suite_peers"), help="default: %(default)s")
    made.add_argument("--table", action="store_true", help="measure nothing; print the table of what is there")
    made.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    return made


@dataclass(frozen=True)
class Subject:
    """What stays the same in all sessions. ``build`` holds the release and asv; ``benchmarks`` is a copy of them."""

    release: str
    framework: Framework
    build: Build
    benchmarks: Path
    cases: Sequence[SuiteCase]
    cache: Path
    seed: int
    share: float
    asv_rounds: int

    @property
    def requirements(self) -> dict[str, str]:
        """What asv's environment needs, name -> version."""
        name, _, version = self.release.partition("==")
        return {name: version, "asv-runner": yaml.safe_load(PINS.read_text(encoding="utf-8"))["asv-runner"]}

    @cached_property
    def names(self) -> list[str]:
        """The benchmarks, each once."""
        return sorted({case.benchmark.name for case in self.cases})

    def slowed(self, session: int) -> list[str]:
        """The benchmarks that are slowed in a session: every second one of a drawn order."""
        drawn = random.Random(f"slowed {self.seed + session}").sample(self.names, len(self.names))
        return sorted(drawn[::2])


def subject_of(options: argparse.Namespace, scratch: Path) -> Subject:
    """The suite and its cases, and a build that holds the release and asv.

    Raises:
        OpduelError: as harness.py's.
    """
    if options.suite is None:
        raise UsageError("--suite: is missing: name the suite, or give --table")
    framework, cache = get_framework("asv"), BuildCache()
    pins = yaml.safe_load(PINS.read_text(encoding="utf-8"))
    wanted = " ".join([options.release, *(f"{name}=={version}" for name, version in pins.items() if name != "pyperf")])
    build = resolve_build(wanted, framework, cache)
    suite = open_suite(options.suite, cache.directory.parent / "suites", scratch)
    benchmarks = copy_suite(suite, scratch / "copy")
    found = discover(build, framework, benchmarks, scratch)
    cases = [case for case in all_cases({"control": found, "treatment": found}) if _wanted(case.name, options.bench)]
    timed = [case for case in cases if case.benchmark.name.rpartition(".")[2].startswith("time_")]
    if len({case.benchmark.name for case in timed}) < 2:
        raise UsageError("--bench: one benchmark of two is slowed: choose two time_* benchmarks or more")
    place = cache.directory.parent / "suite_peers"
    return Subject(
        options.release, framework, build, benchmarks, timed, place, options.seed, options.inject, options.asv_rounds
    )


def _wanted(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(re.search(pattern, name) for pattern in patterns)


def write_slowed(subject: Subject, session: int, folder: Path) -> Path:
    """A copy of the benchmarks in ``folder``, with those of the session wrapped."""
    copy = folder / subject.benchmarks.name
    shutil.copytree(subject.benchmarks, copy)
    shutil.copy(WRAPPER, copy / "_opduel_slowed.py")
    slowed = subject.slowed(session)
    (copy / "_opduel_slowed.json").write_text(json.dumps(slowed), encoding="utf-8")
    for module in {name.partition(".")[0] for name in slowed}:
        with (copy / f"{module}.py").open("a", encoding="utf-8") as stream:
            stream.write(APPENDED)
    return copy


def text_of(side: str, share: float) -> str:
    """The side's module ``slowed``."""
    return f"SHARE = {share if side == 'treatment' else 0.0!r}\n"


def asv_in(subject: Subject, folder: Path) -> real_asv.Program:
    """asv, with a repository of the two sides and a configuration in ``folder``."""
    real_asv.write_repository(folder / "repository", {side: text_of(side, subject.share) for side in SIDES})
    real_asv.write_configuration(folder, subject.requirements, subject.cache)
    environment = {"PATH": os.environ["PATH"], **worker_environment(), **subject.framework.environment(1)}
    return real_asv.Program(subject.build.interpreter, subject.cache, environment)


def measure_asv(subject: Subject, session: int, folder: Path) -> Mapping[str, Answers]:
    """One ``asv continuous``; each factor decides on its samples."""
    write_slowed(subject, session, folder).rename(folder / "suite")
    program = asv_in(subject, folder)
    cpus = ",".join(map(str, sorted(plan_cpus(1).measure)))
    arguments = ["--cpu-affinity", cpus, "--attribute", f"rounds={subject.asv_rounds}"]
    arguments += [word for name in subject.names for word in ("--bench", f"^{re.escape(name)}($|\\()")]
    program.run(folder, "continuous", *SIDES, *arguments, good=(0, 1, 2))  # 1: something became slower; 2: failed
    return real_asv.compare("asv", program, folder, {case.name: case.name for case in subject.cases}, THRESHOLD)


def measure_opduel(subject: Subject, session: int, folder: Path) -> Mapping[str, Answers]:
    """harness.py with its defaults, but that a busy host makes it hold nothing back."""
    suite = write_slowed(subject, session, folder)
    command = [sys.executable, str(HARNESS), "--suite", str(suite), "--seed", str(subject.seed + session)]
    for side in SIDES:
        command += [f"--{side}", str(environment_of(subject, side))]
    command += [f"--bench=^{re.escape(name)}($|\\()" for name in subject.names]
    command += ["--simple_local_reporter", str(folder), "--busy_host", "report"]
    run_program(command, dict(os.environ), folder, TIMEOUT_S, good=(0, 1, 3))  # 3: a case that looks changed is open
    found = {one.case: ANSWERS[one.verdict] for one in read_report(folder / "report.json").comparisons}
    return {"opduel": {case.name: found.get(case.name, "failed") for case in subject.cases}}


def environment_of(subject: Subject, side: str) -> Path:
    """An environment with the release and the side's module ``slowed``."""
    folder = subject.cache / f"{side}-{subject.release}"
    environment = dict(os.environ)
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subject.cache.mkdir(parents=True, exist_ok=True)
        wanted = [f"{name}=={version}" for name, version in subject.requirements.items()]
        uv = find_uv_bin()
        run_program([uv, "venv", "--python", sys.executable, str(folder)], environment, subject.cache, TIMEOUT_S)
        install = [uv, "pip", "install", "--python", str(folder / "bin" / "python"), *wanted]
        run_program(install, environment, subject.cache, TIMEOUT_S)
        (folder / "done").touch()
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "slowed.py").write_text(text_of(side, subject.share), encoding="utf-8")
    return folder


TOOLS: Mapping[str, tuple[str, str, Callable[[Subject, int, Path], Mapping[str, Answers]]]] = {
    "asv": ("the real package", "{rounds} interleaved rounds", measure_asv),
    "opduel": ("the real program", "harness.py --busy_host report", measure_opduel),
}


def run_tool(tool: str, subject: Subject, session: int, folder: Path) -> Result:
    """One tool in one session; ``folder`` is recreated for what it writes. RunError: it could not be run."""
    origin, settings, procedure = TOOLS[tool]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    answers = procedure(subject, session, folder.absolute())
    slowed = set(subject.slowed(session))
    return Result(
        session=session,
        tool=tool,
        settings=settings.format(rounds=subject.asv_rounds),
        origin=origin,
        build=subject.release,
        spec="suite",
        seed=subject.seed + session,
        share=subject.share,
        injected=sorted(case.name for case in subject.cases if case.benchmark.name in slowed),
        seconds=time.monotonic() - began,
        answers=answers,
        host={"cpus": sorted(os.sched_getaffinity(0)), "kernel": platform.release(), "load": os.getloadavg()[0]},
    )


def measure(options: argparse.Namespace, results_file: Path) -> None:
    """All sessions that are not there yet. RunError: a tool could not be run."""
    with tempfile.TemporaryDirectory(prefix="opduel-peers-") as scratch:
        subject = subject_of(options, Path(scratch))
        log.info("%d cases of %d benchmarks", len(subject.cases), len(subject.names))
        set_up = Path(scratch) / "set-up"
        (set_up / "suite").mkdir(parents=True)
        real_asv.make_environment(asv_in(subject, set_up), set_up)
        for side in SIDES:
            environment_of(subject, side)
        there = {(one.tool, one.session, one.seed, one.share) for one in read_results(results_file)}
        for session in range(options.sessions):
            for tool in random.Random(f"order {options.seed + session}").sample(list(TOOLS), len(TOOLS)):
                if (tool, session, options.seed + session, options.inject) not in there:
                    result = run_tool(tool, subject, session, options.folder / "work" / f"{session}-{tool}")
                    append_result(results_file, result)
                    log.info("session %d, %s: %.1f s a case", session, tool, result.seconds / len(subject.cases))


def main() -> int:
    """Measure unless only the table is wanted; print the table."""
    options = parser().parse_args()
    results_file = options.folder / "results.jsonl"
    if not options.table:
        measure(options, results_file)
    results = read_results(results_file)
    if not results:
        raise UsageError(f"{results_file}: holds no result: run without --table first")
    print((markdown if options.markdown else plain)(rows_of(results)))
    return DONE


if __name__ == "__main__":
    sys.exit(run_command("suite_peers.py", main))
