#!/usr/bin/env python3
"""What a catalogue covers: try every case once, and list in Markdown which operators of a build have cases that run,
which have not, and why.

    .venv/bin/python benchmarks/catalogue_coverage.py [--framework NAME] [--catalogue NAME] [-b SPEC] BUILD [BUILD ...]

The first build is listed in full, the others by their failed cases.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.markdown import table
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.apply import apply_rules
from opduel.driver.catalogue.registry import Registry, ask_registry
from opduel.driver.catalogue.rules import USUAL, Rules, catalogue_names, load_rules
from opduel.frameworks import framework_names, get_framework
from opduel.harness.other_runs.smoke_check import SmokeCheck, smoke_check
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import OpduelError, UsageError

PEER_FILE = "opperf.json"  # in the framework's data: what opperf called without measuring -> does it go backward?
PEER_NAMESPACE = "nd."  # the only one that opperf measures
EVERY = 200  # cases between two lines of progress
BACKWARD = "backward"  # in the name of what is registered for backward passes
NOT_SEEN = "not in the spec, or the function of its name calls another operator"


@dataclass(frozen=True)
class BuildCoverage:
    """What was tried on one build."""

    request: str
    registry: Registry
    attempts: Sequence[SmokeCheck]
    left_out: Mapping[str, str]  # function or registered operator -> reason

    @property
    def ran(self) -> list[SmokeCheck]:
        """The cases that ran."""
        return [attempt for attempt in self.attempts if attempt.reason is None]

    @property
    def failed(self) -> list[SmokeCheck]:
        """The cases that failed."""
        return [attempt for attempt in self.attempts if attempt.reason is not None]

    def operators(self, direction: str) -> set[str]:
        """Functions with at least one case in this direction that ran."""
        return {attempt.case.operator for attempt in self.ran if (attempt.case.direction or "forward") == direction}

    def registered_as(self, function: str) -> str | None:
        """The registered operator behind a function, by its own name."""
        entry = self.registry.functions.get(function)
        return entry.registered if entry else None

    def functions_that_ran(self) -> set[str]:
        """The functions with a case that ran, by their first names."""
        functions = self.registry.functions
        return {self.registered_as(name) or name for name in self.operators("forward") if name in functions}

    def profiled_operators(self) -> set[str]:
        """The registered operators that ran, as the framework's profiler tells, by their own names.

        Where it names none that is registered, under which some old operators run, the one that the function calls.
        """
        own = {alias: name for name, aliases in self.registry.registered.items() for alias in aliases}
        operators: set[str] = set()
        for attempt in self.attempts:
            named = {own[name] for name in attempt.operators if name in own}
            called = self.registered_as(attempt.case.operator)
            if attempt.reason is None and not named and attempt.case.direction in ("", "forward") and called:
                named = {called}
            operators |= named
        return operators

    def reasons(self, names: Iterable[str], otherwise: str) -> dict[str, str]:
        """Return why these functions or operators did not run; ``otherwise`` where no other reason is known."""
        failed = {
            self.registered_as(attempt.case.operator) or attempt.case.operator: f"its case fails: {attempt.reason}"
            for attempt in self.failed
        }
        return {name: self.left_out.get(name) or failed.get(name) or otherwise for name in sorted(names)}


def coverage_text(builds: Sequence[BuildCoverage], peer: Mapping[str, bool]) -> str:
    """Return the list for a framework that registers operators. ``peer``: operator -> whether opperf measures its
    backward, too."""
    first = builds[0]
    functions = {name: why for name, why in first.left_out.items() if name not in first.registry.registered}
    unseen = first.reasons(set(first.registry.registered) - first.profiled_operators(), NOT_SEEN)
    parts = [
        "# What the catalogue covers",
        _totals(builds),
        *(_against_peer(first, peer) if peer else ()),
        f"## Cases that failed\n\n{_failures(builds)}",
        f"## Functions without a case on {first.request}\n\n{_by_reason(functions)}",
        f"## Operators that {first.request} registers and that did not run\n\n{_registered(first, unseen)}",
        "Seen by the framework's own profiler in one call of each case.",
        _by_reason(unseen),
    ]
    return "\n\n".join(parts) + "\n"


def package_coverage_text(builds: Sequence[BuildCoverage], rules: Rules) -> str:
    """Return the list of a package's functions. A function is counted once, whatever its names; a method is one of each
    class."""
    first = builds[0]
    without = set(first.registry.registered) - first.functions_that_ran()
    totals = []
    for build in builds:
        every, ran = len(build.registry.registered), len(build.functions_that_ran())
        totals.append((build.request, every, ran, f"{ran / every:.0%}", len(build.attempts), len(build.failed)))
    parts = [
        "# What the catalogue covers",
        _table(("build", "public functions", "ran", "share", "cases", "failed"), totals),
        f"## By category on {first.request}\n\n{_categories(first, rules)}",
        f"## Cases that failed\n\n{_failures(builds)}",
        f"## Functions without a case on {first.request}\n\n"
        + _by_reason(first.reasons(without, "its category is not in the spec")),
    ]
    return "\n\n".join(parts) + "\n"


def _totals(builds: Sequence[BuildCoverage]) -> str:
    rows = [
        (
            build.request,
            len({attempt.case.operator for attempt in build.attempts}),
            len(build.operators("forward")),
            len(build.operators("backward")),
            len([name for name in build.profiled_operators() if BACKWARD not in name]),
            len(build.attempts),
            len(build.failed),
        )
        for build in builds
    ]
    head = ("build", "functions", "ran forward", "ran backward", "registered operators that ran", "cases", "failed")
    return _table(head, rows)


def _registered(build: BuildCoverage, unseen: Mapping[str, str]) -> str:
    rows = []
    for kind, is_backward in (("forward", False), ("of backward passes", True)):
        names = [name for name in build.registry.registered if (BACKWARD in name) == is_backward]
        rows.append((kind, len(names), len([name for name in names if name not in unseen])))
    return _table(("registered operators", "in all", "ran"), rows)


def _against_peer(build: BuildCoverage, peer: Mapping[str, bool]) -> Iterator[str]:
    """Yield how many of the operators that opperf measures ran here, and which didn't. All of them are in `nd`, and
    only functions of `nd` are compared with them."""
    distinct = {build.registry.own_name(name) for name in peer}
    yield f"## Beside opperf\n\nopperf calls {len(peer)} names, which are {len(distinct)} registered operators."
    rows, missing = [], []
    for direction, names in (("forward", [*peer]), ("backward", [name for name, measured in peer.items() if measured])):
        ran = build.operators(direction)
        ran |= {build.registered_as(name) or name for name in ran if name.startswith(PEER_NAMESPACE)}
        absent = [name for name in names if not {build.registry.own_name(name), PEER_NAMESPACE + name} & ran]
        rows.append((f"names, {direction}", len(names), len(names) - len(absent), len(build.operators(direction))))
        missing.append(f"Not run {direction} here: {', '.join(sorted(absent)) or 'none'}.")
    yield _table(("", "opperf", "of these here", "here in all"), rows)
    yield from missing


def _categories(build: BuildCoverage, rules: Rules) -> str:
    rows = []
    for name, category in rules.categories.items():
        attempts = [attempt for attempt in build.attempts if attempt.case.category == name]
        functions = {attempt.case.operator for attempt in attempts if attempt.reason is None}
        rows.append((f"`{name}`", category.description, len(functions), len(attempts)))
    return _table(("category", "what", "functions that ran", "cases"), [row for row in rows if row[-1]])


def _failures(builds: Sequence[BuildCoverage]) -> str:
    rows = [(build.request, attempt.case.id, attempt.reason) for build in builds for attempt in build.failed]
    return _table(("build", "case", "reason"), rows) if rows else "None."


def _by_reason(reasons: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        names[reason].append(f"`{name}`")
    rows = [(reason, len(members), ", ".join(sorted(members))) for reason, members in sorted(names.items())]
    return _table(("reason", "count", "names"), rows) if rows else "None."


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join(table(head, rows))


def coverage_parser() -> argparse.ArgumentParser:
    """Return the parser of all its options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=framework_names(), default=framework_names()[0])
    parser.add_argument("--catalogue", default=USUAL, help="which of its catalogues: the name of a file of rules")
    parser.add_argument("-b", "--benchmark_file", metavar="SPEC", help="default: that of the whole catalogue")
    parser.add_argument("build", nargs="+")
    return parser


def coverage(options: argparse.Namespace) -> str:
    """Try the cases on each build, and return the list. UsageError: there is no such catalogue, spec or build."""
    framework = get_framework(options.framework)
    if options.catalogue not in catalogue_names(framework):
        raise UsageError(f"--catalogue {options.catalogue}: {framework.name} has no such catalogue")
    rules = load_rules(framework, options.catalogue)
    cases = expand_cases(load_spec(find_spec(options.benchmark_file or rules.bundle)), metrics=["time"])
    covered: list[BuildCoverage] = []
    for request in options.build:
        build = resolve_build(request, framework, BuildCache())
        registry = ask_registry(build, framework, rules.namespaces)
        attempts: list[SmokeCheck] = []
        for attempt in smoke_check(build, framework, cases, profile=not rules.namespaces):
            attempts.append(attempt)
            if len(attempts) % EVERY == 0:
                print(f"{request}: {len(attempts)} of {len(cases)} cases tried", file=sys.stderr)
        left_out = {} if covered else apply_rules(rules, registry).left_out  # of the first, which is listed in full
        covered.append(BuildCoverage(request, registry, attempts, left_out))
    if rules.namespaces:
        return package_coverage_text(covered, rules)
    peer = framework.specifications / PEER_FILE
    return coverage_text(covered, json.loads(peer.read_text(encoding="utf-8")) if peer.exists() else {})


if __name__ == "__main__":
    try:
        print(coverage(coverage_parser().parse_args()), end="")
    except OpduelError as error:
        raise SystemExit(str(error)) from None
