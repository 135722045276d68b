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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.apply import apply_rules
from opduel.driver.catalogue.registry import Registry, ask_registry
from opduel.driver.catalogue.rules import USUAL, Rules, catalogue_names, load_rules
from opduel.frameworks import Framework, framework_names, get_framework
from opduel.harness.other_runs.smoke_check import SmokeCheck, smoke_check
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import OpduelError, UsageError

PEER_FILE = "opperf.json"  # in the framework's data: operator -> whether that tool measures its backward
EVERY = 200  # cases between two lines of progress
PEER_SOURCE = "opperf.json beside the rules: what opperf called when it was run without its measurements"
PEER_NAMESPACE = "nd."  # the only one that opperf measures
BACKWARD = "backward"  # in the name of what is registered for backward passes
NOT_SEEN = "the function of its name calls another operator"


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

    def operators(self, direction: str) -> set[str]:
        """Functions with at least one case in this direction that ran."""
        return {attempt.case.operator for attempt in self.ran if (attempt.case.direction or "forward") == direction}

    def registered(self, direction: str, namespace: str = "") -> set[str]:
        """The registered operators behind them, by their own names; only those called through ``namespace``."""
        names = (name for name in self.operators(direction) if name.startswith(namespace))
        return {own for name in names if (own := self._registered_as(name))}

    def _registered_as(self, function: str) -> str | None:
        entry = self.registry.functions.get(function)
        return entry.registered if entry else None

    def profiled_operators(self) -> set[str]:
        """The registered operators that ran, as the framework's profiler tells, by their own names.

        Where it names none that is registered, under which some old operators run, the one that the function calls.
        """
        own = {alias: name for name, aliases in self.registry.registered.items() for alias in aliases}
        operators: set[str] = set()
        for attempt in self.attempts:
            named = {own[name] for name in attempt.operators if name in own}
            called = self._registered_as(attempt.case.operator)
            if attempt.reason is None and not named and attempt.case.direction in ("", "forward") and called:
                named = {called}
            operators |= named
        return operators

    def unprofiled_operators(self, otherwise: str = NOT_SEEN) -> dict[str, str]:
        """The registered operators that did not run, with the reason: ``otherwise`` where no other is known."""
        failed = [attempt for attempt in self.attempts if attempt.reason is not None]
        reasons = {
            self._registered_as(attempt.case.operator): f"its case fails: {attempt.reason}" for attempt in failed
        }
        unseen = sorted(set(self.registry.registered) - self.profiled_operators())
        return {name: self.left_out.get(name) or reasons.get(name) or otherwise for name in unseen}


def coverage_text(
    builds: Sequence[BuildCoverage],
    peer: Mapping[str, bool],
    *,
    options: str = "",
    bundle: str = "all",
    spec: str | None = None,
) -> str:
    """Return the list for the cases of the catalogue's spec ``bundle``, or only for those of ``spec``.

    ``options`` are those of the command. The first build is listed in full, the others by their
    failed cases."""
    first = builds[0]
    functions = {name: why for name, why in first.left_out.items() if name not in first.registry.registered}
    cases = _cases_called(options, builds, bundle, spec)
    parts = [
        f"# What the catalogue covers\n\n{cases}\na few times, forward or backward, in a process of its own."
        + _others_untried(bundle, spec),
        _totals(builds),
        *(_against_peer(first, peer) if peer else ()),
        f"## Cases that failed\n\n{_failures(builds)}",
        f"## Functions without a case on {first.request}\n\n{_by_reason(functions)}",
        f"## Operators that {first.request} registers and that did not run\n\n"
        + _registered(first, NOT_SEEN if spec is None else f"not in `-b {spec}`, or {NOT_SEEN}"),
    ]
    return "\n\n".join(parts) + "\n"


def package_coverage_text(
    framework: str, catalogue: str, builds: Sequence[BuildCoverage], rules: Rules, spec: str | None = None
) -> str:
    """Return the list of a package's functions, likewise."""
    first = builds[0]
    cases = _cases_called(f"--framework {framework} --catalogue {catalogue} ", builds, rules.bundle, spec)
    parts = [
        f"# What the catalogue of {catalogue} covers\n\n{cases} a few times, in a process of its own."
        + _others_untried(rules.bundle, spec)
        + "\nA function is counted once, whatever its names; a method is one of each class.",
        _package_totals(builds),
        f"## By category on {first.request}\n\n{_categories(first, rules)}",
        f"## Cases that failed\n\n{_failures(builds)}",
        f"## Functions without a case on {first.request}\n\n{_by_reason(_without(first))}",
    ]
    return "\n\n".join(parts) + "\n"


def _cases_called(options: str, builds: Sequence[BuildCoverage], bundle: str, spec: str | None) -> str:
    """Return the command that printed the list, and whose cases were called; ``options``: the other ones."""
    only = "" if spec is None else f"-b {spec} "
    requests = " ".join(f'"{build.request}"' if " " in build.request else build.request for build in builds)
    command = f"`.venv/bin/python benchmarks/catalogue_coverage.py {options}{only}{requests}`"
    return f"Printed by {command}: every case of `-b {spec or bundle}` was called"


def _others_untried(bundle: str, spec: str | None) -> str:
    """Return a sentence, with a space before it, where only the cases of ``spec`` were tried."""
    return "" if spec is None else f" The other cases of the catalogue, `-b {bundle}`, were not tried."


def _registered(build: BuildCoverage, otherwise: str) -> str:
    every, unseen = build.registry.registered, build.unprofiled_operators(otherwise)
    rows = []
    for kind, is_backward in (("forward", False), ("of backward passes", True)):
        names = [name for name in every if (BACKWARD in name) == is_backward]
        if names:
            rows.append((kind, len(names), len([name for name in names if name not in unseen])))
    return (
        _table(("registered operators", "in all", "ran"), rows)
        + "\n\nSeen by the framework's own profiler in one call of each case. Those that did not run:\n\n"
        + _by_reason(unseen)
    )


def _totals(builds: Sequence[BuildCoverage]) -> str:
    rows = [
        (
            build.request,
            len({attempt.case.operator for attempt in build.attempts}),
            len(build.operators("forward")),
            len(build.operators("backward")),
            len([name for name in build.profiled_operators() if BACKWARD not in name]),
            len(build.attempts),
            len(build.attempts) - len(build.ran),
        )
        for build in builds
    ]
    head = ("build", "functions", "ran forward", "ran backward", "registered operators that ran", "cases", "failed")
    note = "\n\nRegistered operators are counted once, whatever their aliases, and without those of backward passes."
    return _table(head, rows) + note


def _against_peer(build: BuildCoverage, peer: Mapping[str, bool]) -> Iterable[str]:
    """How many of the operators that opperf measures ran here, and which didn't."""

    def missing(direction: str, names: Iterable[str]) -> list[str]:
        ran = build.registered(direction, PEER_NAMESPACE) | build.operators(direction)
        return sorted(name for name in names if not {build.registry.own_name(name), PEER_NAMESPACE + name} & ran)

    backward = [name for name, measured in peer.items() if measured]
    absent, absent_backward = missing("forward", peer), missing("backward", backward)
    distinct = {build.registry.own_name(name) for name in peer}
    yield (
        "## Beside opperf\n\n"
        f"opperf 1.9.1 calls {len(peer)} names, which are {len(distinct)} registered operators ({PEER_SOURCE}),\n"
        f"{len(backward)} of them backward, too. All of them are in `nd`, and only functions of `nd` are compared with "
        "them."
    )
    yield _table(
        ("", "opperf", "of these here", "here in all"),
        [
            ("names, forward", len(peer), len(peer) - len(absent), len(build.operators("forward"))),
            ("names, backward", len(backward), len(backward) - len(absent_backward), len(build.operators("backward"))),
            ("registered operators, forward", len(distinct), "", len(build.registered("forward"))),
        ],
    )
    for direction, names in (("forward", absent), ("backward", absent_backward)):
        yield f"Not run {direction} here: {', '.join(names) or 'none'}."


def _covered(build: BuildCoverage) -> set[str]:
    """The functions with a case that ran, by their first names."""
    return {
        build.registry.functions[operator].registered or operator
        for operator in build.operators("forward")
        if operator in build.registry.functions
    }


def _package_totals(builds: Sequence[BuildCoverage]) -> str:
    rows = []
    for build in builds:
        every, failed = len(build.registry.registered), len(build.attempts) - len(build.ran)
        covered = len(_covered(build))
        rows.append((build.request, every, covered, f"{covered / every:.0%}", len(build.attempts), failed))
    return _table(("build", "public functions", "ran", "share", "cases", "failed"), rows)


def _categories(build: BuildCoverage, rules: Rules) -> str:
    rows = []
    for name, category in rules.categories.items():
        attempts = [attempt for attempt in build.attempts if attempt.case.category == name]
        if attempts:
            functions = {attempt.case.operator for attempt in attempts if attempt.reason is None}
            slowest_ms = max(attempt.call_ns or 0.0 for attempt in attempts) / 1e6
            rows.append((f"`{name}`", category.description, len(functions), len(attempts), f"{slowest_ms:.1f} ms"))
    return _table(("category", "what", "functions that ran", "cases", "longest call"), rows)


def _without(build: BuildCoverage) -> Mapping[str, str]:
    """Return the functions that did not run, by their first names, with the reason."""
    functions = build.registry.functions
    failed = {
        functions[operator].registered or operator: f"its case fails: {attempt.reason}".replace("|", "\\|")
        for attempt in build.attempts
        if attempt.reason is not None and (operator := attempt.case.operator) in functions
    }
    return {
        name: build.left_out.get(name) or failed.get(name) or "its category is not in the spec"
        for name in sorted(set(build.registry.registered) - _covered(build))
    }


def _failures(builds: Sequence[BuildCoverage]) -> str:
    rows = [
        (build.request, attempt.case.id, attempt.reason.replace("|", "\\|"))
        for build in builds
        for attempt in build.attempts
        if attempt.reason is not None
    ]
    return _table(("build", "case", "reason"), rows) if rows else "None."


def _by_reason(reasons: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        names[reason].append(f"`{name}`")
    rows = [(reason, len(members), ", ".join(sorted(members))) for reason, members in sorted(names.items())]
    return _table(("reason", "count", "names"), rows) if rows else "None."


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def coverage_parser() -> argparse.ArgumentParser:
    """Return the parser of all its options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=framework_names(), default=framework_names()[0])
    parser.add_argument("--catalogue", default=USUAL, help="which of its catalogues: the name of a file of rules")
    parser.add_argument("-b", "--benchmark_file", metavar="SPEC", help="default: that of the whole catalogue")
    parser.add_argument("--exec_dir", type=Path, help="the build cache")
    parser.add_argument("build", nargs="+")
    return parser


def coverage(options: argparse.Namespace) -> str:
    """Try the cases on each build, and return the list. UsageError: there is no such catalogue, spec or build."""
    framework, cache = get_framework(options.framework), BuildCache(options.exec_dir)
    if options.catalogue not in catalogue_names(framework):
        raise UsageError(f"--catalogue {options.catalogue}: {framework.name} has no such catalogue")
    rules = load_rules(framework, options.catalogue)
    only = None if options.benchmark_file == rules.bundle else options.benchmark_file
    spec_path = find_spec(only or rules.bundle)
    cases = expand_cases(load_spec(spec_path), metrics=["time"])
    covered: list[BuildCoverage] = []
    for request in options.build:
        build = resolve_build(request, framework, cache)
        registry = ask_registry(build, framework, rules.namespaces)
        attempts: list[SmokeCheck] = []
        for attempt in smoke_check(build, framework, cases, profile=not rules.namespaces):
            attempts.append(attempt)
            if len(attempts) % EVERY == 0:
                print(f"{request}: {len(attempts)} of {len(cases)} cases tried", file=sys.stderr)
        left_out: Mapping[str, str] = (
            {} if covered else apply_rules(rules, registry).left_out
        )  # of the first, which is reported in full
        covered.append(BuildCoverage(request, registry, tuple(attempts), left_out))
    if rules.namespaces:
        return package_coverage_text(framework.name, options.catalogue, covered, rules, only)
    options_text = "" if framework.name == framework_names()[0] else f"--framework {framework.name} "
    return coverage_text(covered, _peer(framework), options=options_text, bundle=rules.bundle, spec=only)


def _peer(framework: Framework) -> Mapping[str, bool]:
    """The operators that the framework's own tool measures, and whether it does their backward; empty if unknown."""
    path = framework.specifications / PEER_FILE
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not readable ({error}): restore it") from None


if __name__ == "__main__":
    try:
        print(coverage(coverage_parser().parse_args()), end="")
    except OpduelError as error:
        raise SystemExit(str(error)) from None
