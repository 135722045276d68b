"""Causes that are known, injected one by one: does --explain name them, with the right share, and nothing else?

    .venv/bin/python benchmarks/causes.py [--only NAME] [--folder DIR] [--markdown] [--aa N]

A small package of our own, native code under Python (benchmarks/injected_causes/), is built twice. For each cause of
catalogue.py the treatment has a copy of it in which one passage is another; the truth, which function is slower and
which share of the change it has, is written beside the passage. Then

1. ``harness.py --explain all`` measures both builds, ten cases a run, and each sentence is compared with the truth;
2. the control is compared with a copy of itself, and with a copy in which functions have other names: every case is
   explained as if it had regressed. Nothing may be claimed of either.

Printed: a table, counts with exact 95 % intervals, what was missed, and how long ten causes took. Exit code 1 if fewer
than 90 % were named, or have their true share within the interval, or if anything was claimed of equal builds; 3 if
a run could not be completed. With two processors to itself it takes five minutes; --only takes a part of a name.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.injected_causes.builds import module_of, write_builds, write_spec  # noqa: E402
from benchmarks.injected_causes.catalogue import CAUSES  # noqa: E402
from benchmarks.injected_causes.cause import Cause  # noqa: E402
from benchmarks.injected_causes.clocked import true_share  # noqa: E402
from benchmarks.injected_causes.judge import Equal, Judged, is_bad, judged, summary, table  # noqa: E402
from opduel.commands.entry import DONE, REGRESSED, run_command  # noqa: E402
from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.frameworks import get_framework, worker_environment  # noqa: E402
from opduel.harness.cpus import plan_cpus, this_thread_on  # noqa: E402
from opduel.harness.explain.causes import Explaining, add_causes  # noqa: E402
from opduel.harness.measurement_plan import MeasurementResult  # noqa: E402
from opduel.harness.pair_pool import Bench  # noqa: E402
from opduel.harness.profiles import Profiling  # noqa: E402
from opduel.harness.specs import Spec, expand_cases, load_spec  # noqa: E402
from opduel.records import Build, Comparison, RunError, UsageError  # noqa: E402
from opduel.records.measurement import SIDES, Side  # noqa: E402

NUMPY = "numpy==2.2.6"
PER_RUN = 10  # cases
FORCED = 1.3  # the ratio by which equal builds are said to differ
LONGEST_S = 1200.0  # of a run
OPTIONS = ("--busy_host", "report", "--sentinels", "0", "--max_rounds", "12", "--threshold", "5%")
EQUAL = ("same", "renamed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("causes.py", lambda: _run(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="causes whose name has this in it")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="keep what is found here, and go on with what is there"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--aa", type=int, default=PER_RUN, metavar="N", help="cases of equal builds (default: 10)")
    return parser


def _run(options: argparse.Namespace) -> int:
    causes = {number: one for number, one in enumerate(CAUSES, 1) if options.only in one.name}
    if not causes:
        raise UsageError(f"--only {options.only}: no cause has that in its name")
    with tempfile.TemporaryDirectory(prefix="causes-") as temporary:
        bench = Trials(options.folder or Path(temporary), causes, keeps=options.folder is not None)
        found = bench.injected()
        equal = {name: bench.equal(name, options.aa) for name in EQUAL if options.aa}
    print("\n".join(table(found, options.markdown)))
    print("\n".join(summary(found, equal)))
    return REGRESSED if is_bad(found, equal) else DONE


class Trials:
    """The builds in a folder, and what is said of them; what was found before is kept there, in files."""

    def __init__(self, folder: Path, causes: Mapping[int, Cause], keeps: bool) -> None:
        """``keeps``: builds have all causes that there are, so that the next one may ask for others."""
        self._folder, self._causes = folder.resolve(), causes
        builds, made = self._folder / "builds", self._folder / "builds.made"
        if not made.exists():
            shutil.rmtree(builds, ignore_errors=True)
            numpy = resolve_build(NUMPY, get_framework("python"), BuildCache())
            packages = next(Path(numpy.interpreter).parent.parent.glob("lib/python*/site-packages"))
            write_builds(builds, packages, dict(enumerate(CAUSES, 1)) if keeps else causes)
            made.touch()
        self._places = {path.name: path for path in builds.iterdir()}

    def injected(self) -> list[Judged]:
        """What harness.py says of control and treatment, cause by cause."""
        found, numbers = [], list(self._causes)
        for start in range(0, len(numbers), PER_RUN):
            chosen = {number: self._causes[number] for number in numbers[start : start + PER_RUN]}
            comparisons = self._measured(chosen)
            found += [
                judged(self._with_truth(number, cause), comparisons[module_of(number)])
                for number, cause in chosen.items()
            ]
        return found

    def _with_truth(self, number: int, cause: Cause) -> Cause:
        """The cause with its true share, measured where it isn't known by construction."""
        if not cause.clocked:
            return cause
        kept = self._folder / f"{module_of(number)}.truth.json"
        if not kept.exists():
            pythons = {side: self._places[side] / "bin" / "python" for side in SIDES}
            found = true_share(pythons, module_of(number), cause.clocked, {**os.environ, **worker_environment()})
            kept.write_text(json.dumps(found))
        share, reach = json.loads(kept.read_text())
        return replace(cause, truths=[replace(one, share=share, reach=reach) for one in cause.truths])

    def _measured(self, causes: Mapping[int, Cause]) -> dict[str, Mapping[str, Any]]:
        """The copy of the package -> its comparison in the report's document. RunError: there is no report."""
        name = "-".join(map(str, causes))
        report, spec = self._folder / name / "report.json", self._folder / f"{name}.json"
        if not report.exists():
            write_spec(spec, causes)
            sides = [f"--{side}={self._places[side]}" for side in SIDES]
            command = [sys.executable, str(ROOT / "harness.py"), "-b", str(spec), *sides, "--explain", "all", *OPTIONS]
            command += ["--simple_local_reporter", str(report.parent)]
            done = subprocess.run(command, stdout=sys.stderr, timeout=LONGEST_S, check=False)
            if not report.exists():
                raise RunError(f"harness.py ended with {done.returncode} and without a report")
        document = json.loads(report.read_text())
        return {one["case"].partition("/")[0]: one for one in document["comparisons"]}

    def equal(self, name: str, most: int) -> "Equal":
        """What is said of the control and of an equal build, of ``most`` cases, as if each had regressed."""
        kept = self._folder / f"{name}.kept.json"
        if not kept.exists():
            spec = self._folder / f"{name}.json"
            every = max(1, len(self._causes) // most)
            write_spec(spec, dict([*self._causes.items()][::every][:most]))
            kept.write_text(json.dumps(self._explained(load_spec(spec), name)))
        seconds, sentences = json.loads(kept.read_text())
        return Equal(seconds, sentences)

    def _explained(self, spec: Spec, name: str) -> tuple[float, list[str]]:
        """In how many seconds every case was looked at, and the sentences."""
        framework, cases = get_framework("python"), expand_cases(spec)
        builds: dict[Side, Build] = {
            side: resolve_build(str(self._places[place]), framework, BuildCache())
            for side, place in zip(SIDES, ("control", name), strict=True)
        }
        environment = {**worker_environment(), **framework.environment(1), **framework.preparation(cases)}
        bench = Bench(builds, framework.adaptor, environment, plan_cpus(1))
        explaining = Explaining(Profiling(bench, framework, 1, seed=1), "all", replicates=False, env={})
        forced = [
            replace(Comparison.without_figures(case, "regressed"), ratio=FORCED, control=1000.0, treatment=1300.0)
            for case in cases
        ]
        started = time.monotonic()
        with this_thread_on(bench.cpus.control):
            found = add_causes(forced, cases, MeasurementResult(), explaining)
        sentences = [one.cause.sentence for one in found if one.cause]
        if len(sentences) < len(cases):
            raise RunError(f"{len(cases) - len(sentences)} of {len(cases)} cases of equal builds were not looked at")
        return time.monotonic() - started, sentences


if __name__ == "__main__":
    raise SystemExit(main())
