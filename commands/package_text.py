"""What ``--packages`` says in words: what differs, which packages are to blame for how much, and how to go on."""

import math
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import reduce

from opduel.commands.driver_text import figures
from opduel.commands.harness_options import HarnessOptions
from opduel.driver.attribution import NONE, Change
from opduel.driver.builds.process import run
from opduel.driver.outcome import Outcome
from opduel.driver.package_search import PackageCulprit, PackageSearch
from opduel.driver.packages import PYTHON, EnvironmentPair
from opduel.driver.steps import step_of
from opduel.reporters.units import human_change
from opduel.support.command_names import command_name
from opduel.support.text import counted, listed

_MOST_NAMED = 12  # packages
_CASES = (
    *("benchmark_file", "suite", "bench", "suite_packages", "operators", "category", "inputs", "setup", "statement"),
    *("metric", "threshold", "time_budget", "threads"),
)
_TIMEOUT_S = 30.0


def difference_lines(pair: EnvironmentPair) -> list[str]:
    """Return what differs between two environments."""
    changes = list(map(pair.change, pair.differing))
    packages = counted(len(set(pair.differing) - {PYTHON}), "package")
    subject = f"{packages} and Python" if PYTHON in pair.differing else packages
    verb = "differs" if len(changes) == 1 else "differ"
    return [f"{subject.removeprefix('0 packages and ')} {verb}: {listed(changes, _MOST_NAMED)}"]


def package_lines(search: PackageSearch, explained: Sequence[PackageCulprit], outcome: Outcome) -> list[str]:
    """Return the culprits with their evidence; nothing when nothing changed."""
    if not outcome.confirmed:
        old, new = search.pair.control.request, search.pair.treatment.request
        undecided = [result.case for result in outcome.benchmark.comparisons if result.verdict == "inconclusive"]
        if undecided:
            return [f"undecided: {', '.join(undecided)}: give more time (--time_budget)"]
        why = "if it differs all the same, look at the interpreters, and at files of no package"
        return [f"nothing is worse with the packages of {new} than with those of {old}; {why}"]
    lines = [line for culprit in explained for line in _culprit_lines(search, culprit, outcome)]
    return [*lines, *_rest_lines(explained, outcome)]


def _culprit_lines(search: PackageSearch, culprit: PackageCulprit, outcome: Outcome) -> Iterator[str]:
    step = culprit.on_line.range
    changes = [search.pair.change(name) for name in sorted(culprit.packages)]
    names = " and ".join([*changes, *map(search.pair.change, sorted(culprit.partners))])
    if not step.is_named:
        note = f" ({step.note})" if step.note else ""
        names = f"one of these, or several together: {', '.join(changes)}{note}"
    elif culprit.partners:
        names += " together: neither does it without the other"
    elif len(changes) > 1:
        names += ", which require each other"
    yield f"found: {names}"
    for case, evidence in step.cases.items():
        total = _total(outcome, case)
        in_all = "" if total is None else f"; {human_change(math.exp(total.estimate))} in all"
        yield f"  {case}: {evidence.verdict}{figures(evidence.change)}{in_all}"
    for release in culprit.releases:
        bad = [revision.name for revision in release.revisions[1:]]
        first = bad[-1] if release.range.is_named else f"one of {', '.join(bad)}"
        yield f"  first bad release: {first}, after {release.revisions[0].name}"
        for case, evidence in release.range.cases.items():
            yield f"    {case}: {evidence.verdict}{figures(evidence.change)}"


def _rest_lines(explained: Sequence[PackageCulprit], outcome: Outcome) -> Iterator[str]:
    """Yield how much of the change of a case the packages that were found explain, where that isn't all of it."""
    thresholds = {comparison.case: comparison.threshold for comparison in outcome.benchmark.comparisons}
    for case in outcome.confirmed:
        changes = [culprit.cases[case].change for culprit in explained if case in culprit.cases]
        total, parts = _total(outcome, case), [change for change in changes if change is not None]
        if total is None or not parts:
            continue
        together = reduce(Change.plus, parts, NONE)
        unexplained = abs(total.minus(together).estimate)
        if unexplained > math.log1p(thresholds[case]):
            by_these, in_all = (human_change(math.exp(change.estimate)) for change in (together, total))
            of_total = f"this explains {by_these} of {in_all}"
            yield f"  {case}: {of_total}; the rest is spread over other packages, or not settled"


def _total(outcome: Outcome, case: str) -> Change | None:
    """Return the change of a case between the two environments."""
    report = outcome.verification or outcome.benchmark
    return next((step_of(comparison).change for comparison in report.comparisons if comparison.case == case), None)


def commit_command(options: HarnessOptions, search: PackageSearch, culprit: PackageCulprit) -> str:
    """Return the command that finds the commit in a package's repository; empty where that isn't known."""
    release = next((release for release in culprit.releases if release.range.is_named), None)
    if len(culprit.packages) != 1 or not culprit.on_line.range.is_named:
        return ""
    (name,) = culprit.packages
    mixture = search.pair.mixture(search.line[culprit.on_line.range.end])
    package = mixture.packages.get(name)
    versions = search.pair.versions(name)
    if release is not None:
        good, bad = (revision.name.partition("==")[2] for revision in (release.revisions[0], release.revisions[-1]))
        versions = good, bad
    if package is None or package.repository is None or versions[0] == versions[1] or "none" in versions:
        return ""
    beside = [f"{other.name}=={other.version}" for other in mixture.packages.values() if other.name != name]
    python = f"python=={'.'.join(mixture.python.split('.')[:2])}"
    tags = _tags(package.repository, versions)
    words = [
        *("--remote_repository", package.repository, "--base_commit", tags[0], "--commit", tags[1]),
        *options.configuration().words(_CASES),
        *("--with_packages", " ".join([python, *beside])),
    ]
    command = command_name("bisect")
    script = [] if command.startswith("opduel") else ["--ab_testing", "--regression", "--exact_base"]
    return f"{command} {shlex.join([*script, *words])}"


def _tags(repository: str, versions: tuple[str, str]) -> list[str]:
    """Return the tags of two versions, as the repository has them; where it can't be asked, as most have them."""
    command = ["git", "ls-remote", "--tags", "--refs", "--", repository]
    try:
        outcome = run(command, timeout=_TIMEOUT_S, environment={"GIT_TERMINAL_PROMPT": "0"})
    except OSError:
        return [f"v{version}" for version in versions]
    names = re.findall(r"refs/tags/(\S+)", outcome.stdout)
    tags = []
    for version in versions:
        matching = [name for name in names if re.fullmatch(rf"(.*[^\d.])?{re.escape(version)}", name)]
        tags.append(min(matching, key=len, default=f"v{version}"))
    return tags
