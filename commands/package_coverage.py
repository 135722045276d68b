"""What a package's catalogue covers, in Markdown: which public functions have cases that run, and why others don't."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from opduel.commands.coverage_text import BuildCoverage, by_reason, failures, others_untried, printed_by, table
from opduel.driver.catalogue.rules import Rules


def package_coverage_text(
    framework: str, catalogue: str, builds: Sequence[BuildCoverage], rules: Rules, spec: str | None = None
) -> str:
    """Return the list for all cases, or only for those of ``spec``. The first build is listed in full, the others by
    their failed cases."""
    first = builds[0]
    options = f"--framework {framework} --catalogue {catalogue} "
    command = printed_by(options, [build.request for build in builds], spec)
    return (
        "\n\n".join(
            [
                f"# What the catalogue of {catalogue} covers",
                f"{command}: every case of `-b {spec or rules.bundle}` was called a few times, in a process of its own."
                + others_untried(rules.bundle, spec)
                + "\nA function is counted once, whatever its names; a method is one of each class.",
                _totals(builds),
                f"## By category on {first.request}\n\n{_categories(first, rules)}",
                f"## Cases that failed\n\n{failures(builds)}",
                f"## Functions without a case on {first.request}\n\n{by_reason(_without(first))}",
            ]
        )
        + "\n"
    )


def _covered(build: BuildCoverage) -> set[str]:
    """The functions with a case that ran, by their first names."""
    return {
        build.registry.functions[operator].registered or operator
        for operator in build.operators("forward")
        if operator in build.registry.functions
    }


def _totals(builds: Sequence[BuildCoverage]) -> str:
    rows = []
    for build in builds:
        every, failed = len(build.registry.registered), len(build.attempts) - len(build.ran)
        covered = len(_covered(build))
        rows.append((build.request, every, covered, f"{covered / every:.0%}", len(build.attempts), failed))
    return table(("build", "public functions", "ran", "share", "cases", "failed"), rows)


def _categories(build: BuildCoverage, rules: Rules) -> str:
    tried = Counter(attempt.case.category for attempt in build.attempts)
    functions = {
        name: {attempt.case.operator for attempt in build.ran if attempt.case.category == name} for name in tried
    }
    slow = {
        name: max((attempt.call_ns or 0.0) for attempt in build.attempts if attempt.case.category == name) / 1e6
        for name in tried
    }
    rows = [
        (f"`{name}`", category.description, len(functions[name]), tried[name], f"{slow[name]:.1f} ms")
        for name, category in rules.categories.items()
        if name in tried
    ]
    return table(("category", "what", "functions that ran", "cases", "longest call"), rows)


def _without(build: BuildCoverage) -> Mapping[str, str]:
    """The functions that did not run, by their first names, with the reason."""
    covered = _covered(build)
    failed = dict(_reasons_of_failures(build))
    return {
        name: build.left_out.get(name) or failed.get(name) or "its category is not in the spec"
        for name in sorted(set(build.registry.registered) - covered)
    }


def _reasons_of_failures(build: BuildCoverage) -> Iterator[tuple[str, str]]:
    for attempt in build.attempts:
        if attempt.reason is not None and attempt.case.operator in build.registry.functions:
            own = build.registry.functions[attempt.case.operator].registered or attempt.case.operator
            yield own, f"its case fails: {attempt.reason}".replace("|", "\\|")
