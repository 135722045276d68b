"""What repo_driver.py says of its work in words: what it is about to do, and the culprits."""

import math
from collections.abc import Iterable, Sequence

from opduel.driver.attribution import Change
from opduel.driver.culprit_code import changed_code_lines
from opduel.driver.outcome import Culprit, Outcome
from opduel.driver.revisions import Revision
from opduel.records import Commit
from opduel.records.cause import UNEXPLAINED
from opduel.reporters.reproduce import program
from opduel.reporters.units import human_change, human_interval
from opduel.support.text import duration


def plan_lines(why: str, line: Sequence[Commit], strategy: str, branch: str | None = None) -> list[str]:
    """Both commits, why that control, how many lie between, how they are built, and on which branch they are."""
    between = f", {len(line) - 2} between" if len(line) > 2 else ""
    return [
        *([f"branch     {branch}"] if branch else []),
        f"control    {line[0].words} ({why})",
        f"treatment  {line[-1].words}{between}",
        *([] if strategy == "auto" else [f"build      {strategy}"]),
    ]


def bisection_line(line: Sequence[Commit], longest_s: float | None) -> str:
    """How many comparisons find one culprit on a line of commits, control first; each takes at most ``longest_s``,
    or what those before it left of theirs, too."""
    commits = len(line) - 1
    most = 2 + 2 * (commits - 1).bit_length()  # both ends twice, then at most both halves of each range
    in_all = f", each over as soon as it is decided, in all at most {duration(most * longest_s)}" if longest_s else ""
    return f"bisection  at most {most} comparisons where one of {commits} commits is to blame{in_all}"


def compile_lines(commits: Sequence[Commit], minutes: float | None, has_releases: bool) -> list[str]:
    """What has to be built, and how long that takes; nothing when nothing has to be. ``has_releases``: what is built is
    native code, and releases of it could stand in."""
    if not commits:
        return []
    names = " and ".join(commit.short for commit in commits)
    if not has_releases:
        return [f"builds     {names}: not in the cache yet"]
    cost = f", about {minutes or 0:.0f} min from nothing, less with ccache or after an earlier compile"
    cost = "" if minutes is None else cost
    further = "; the second one compiles only what differs" if len(commits) > 1 else ""
    return [
        f"compiles   {names}: native code that no release and no build in the cache has{cost}{further}",
        "           where you have built both already, measure these: "
        f"{' '.join(program('harness.py', 'compare'))} --control PATH --treatment PATH",
    ]


def culprit_lines(outcome: Outcome) -> list[str]:
    """Which commits caused the confirmed changes, with the evidence; nothing when nothing was sought."""
    if outcome.culprits is None and not outcome.known_culprits:
        return []
    lines = [line for traced in outcome.known_culprits for line in _culprit_lines(traced, outcome, is_known=True)]
    lines += [line for traced in outcome.culprits or () for line in _culprit_lines(traced, outcome)]
    named = {case for traced in (*outcome.known_culprits, *(outcome.culprits or ())) for case in traced.range.cases}
    missing = [case for case in outcome.confirmed if case not in named]
    if missing:
        lines.append(f"no culprit found for: {', '.join(missing)}")
    return lines


def _culprit_lines(traced: Culprit, outcome: Outcome, is_known: bool = False) -> Iterable[str]:
    culprit, revisions = traced.range, traced.revisions
    verdicts = {step.verdict for step in culprit.cases.values()}
    word = ("known, " if is_known else "") + ("improved by" if verdicts == {"improved"} else "first bad")
    if culprit.is_named:
        yield f"{word}: {revision_line(revisions[-1])}"
    else:
        note = f" ({culprit.note})" if culprit.note else ""
        yield f"{word}: one of {len(revisions) - 1}, after {revisions[0].name} up to {revisions[-1].name}{note}"
        yield from (f"    {revision_line(revision)}" for revision in revisions[1:])
    for case, step in culprit.cases.items():
        yield f"  {case}: {step.verdict}{figures(step.change)}{_account(outcome, case) if is_known else ''}"
        if case in traced.causes and traced.causes[case].is_explained:
            yield f"    {traced.causes[case].words}"
    yield from (f"  {line}" for line in _unexplained_lines(traced))
    if culprit.is_named and culprit.note:
        yield f"  {culprit.note}"
    if traced.code is not None:
        yield from (f"  {line}" for line in changed_code_lines(traced.code))


def _unexplained_lines(traced: Culprit) -> Iterable[str]:
    """Say once of how many cases the cause isn't explained, and which of the functions that they run differ, where
    nothing else says what the culprit changed."""
    causes = [traced.causes[case] for case in traced.range.cases if case in traced.causes]
    unexplained = [cause for cause in causes if not cause.is_explained]
    if len(unexplained) == 1:
        yield unexplained[0].words
    elif unexplained:
        yield f"cause of {len(unexplained)} cases: {UNEXPLAINED} (opduel explain shows what was)"
        if traced.code is None:
            yield from dict.fromkeys(cause.changed_words for cause in unexplained if cause.changed_words)


def figures(change: Change | None) -> str:
    """A change with its interval, as it follows a verdict; nothing where there is none."""
    if change is None:
        return ""
    interval = (math.exp(change.low), math.exp(change.high))
    return f", {human_change(math.exp(change.estimate))} {human_interval(interval)}"


def _account(outcome: Outcome, case: str) -> str:
    """What the benchmark found beside the known culprits of a case."""
    attribution = outcome.attributions[case]
    if attribution.total is None:
        return f"; {'nothing else' if attribution.finding == 'accounted' else 'the rest'} was investigated"
    in_all = f"; {human_change(math.exp(attribution.total.estimate))} in all"
    if attribution.finding == "more" and attribution.remainder is not None:
        more = human_change(math.exp(attribution.remainder.estimate))
        return f"{in_all}, {more} more than known culprits explain: investigated"
    return f"{in_all}: nothing else was investigated"


def revision_line(revision: Revision) -> str:
    """A commit with its author, date and subject; a release by its name."""
    return revision.commit.words if revision.commit else revision.name
