"""The result of a run: verdicts counted, cases worst first, caveats and notes."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from opduel.records import FLAGGED, ONE_SIDED, Comparison, Report, Verdict, verdict_words
from opduel.reporters.changes import change_text
from opduel.reporters.needs import time_line
from opduel.support.command_names import command_name
from opduel.support.text import counted, listed

WORST_FIRST: tuple[Verdict, ...] = (
    *("regressed", "failed", "inconclusive", "not_better"),  # what may be worse
    *("improved", "not_worse", "unchanged"),
)
Conclusion = Literal["regressed", "incomplete", "done"]
_AGAIN = "measure again when the machine is quiet"
_ALL_THE_SAME = "or take them all the same with --busy_host report"
_QUIET = "a quiet host: "  # as its rounds say, which other load may have spared


@dataclass(frozen=True)
class VerdictCount:
    """The number of cases with a verdict, which is called ``words``."""

    verdict: Verdict
    words: str
    count: int


def verdict_counts(results: Iterable[Comparison]) -> list[VerdictCount]:
    """Count the verdicts, the worst first. A one-sided verdict has a count for each of its words, such as "not slower"
    and "not larger", and none where no result has it; the others may count 0."""
    count_by_words = Counter((result.verdict, verdict_words(result.verdict, result.metric)) for result in results)
    counts = []
    for verdict in WORST_FIRST:
        words = sorted(text for name, text in count_by_words if name == verdict) if verdict in ONE_SIDED else [verdict]
        counts += [VerdictCount(verdict, text, count_by_words[verdict, text]) for text in words]
    return counts


def by_verdict(
    comparisons: Sequence[Comparison], most: int | None = None
) -> list[tuple[VerdictCount, list[Comparison]]]:
    """Return the comparisons, or only the ``most`` worst, by verdict; verdicts and comparisons with the worst first.

    The counts are of all comparisons, whatever ``most`` is.
    """
    groups: dict[str, list[Comparison]] = {}
    for comparison in worst_first(comparisons)[:most]:
        groups.setdefault(comparison.verdict_words, []).append(comparison)
    return [(group, groups[group.words]) for group in verdict_counts(comparisons) if group.words in groups]


def effect_size(ratio: float | None, difference: float | None = None) -> float:
    """Return the size of a change, |ln ratio|, in either direction; infinite for a difference without a ratio, and 0
    if neither is known."""
    if difference:
        return math.inf
    if ratio is None or math.isnan(ratio):
        return 0.0
    return abs(math.log(ratio)) if 0 < ratio < math.inf else math.inf


def worst_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return the comparisons sorted by verdict (``WORST_FIRST``), suspected cases before others, the largest change
    first, then by case."""

    def order(comparison: Comparison) -> tuple[int, int, float, str]:
        suspected = comparison.suspected
        suspicion = FLAGGED.index(suspected) if suspected in FLAGGED else len(FLAGGED)
        size = effect_size(comparison.ratio, comparison.difference)
        return WORST_FIRST.index(comparison.verdict), suspicion, -size, comparison.case

    return sorted(comparisons, key=order)


def changed_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return the comparisons as ``worst_first`` does, but with all that changed or failed before the others."""
    return sorted(worst_first(comparisons), key=lambda comparison: comparison.verdict not in (*FLAGGED, "failed"))


def conclusion(report: Report) -> Conclusion:
    """Return the conclusion of the run. A case that the treatment breaks is a regression, whatever was held back. A
    run is incomplete if it was aborted, if a regression or all verdicts were held back, if no case came to a verdict,
    if it ended before a case was compared, or one that looks changed was settled, or if a case could not be compared.
    """
    if report.run.aborted:
        return "incomplete"
    if any(comparison.is_worse for comparison in report.comparisons):
        return "regressed"
    is_open = report.open_suspects or report.uncompared or report.nothing_decided or report.withholds("regressed")
    is_reached = not any(comparison.is_unreached for comparison in report.comparisons)
    return "done" if is_reached and not is_open else "incomplete"


def open_lines(report: Report) -> list[str]:
    """Return what a run left open: that nothing was compared, which cases could not be, which look changed but are not
    settled, and how long it would take to settle them. Empty for most runs."""
    return [*unsettled_lines(report), *filter(None, [time_line(report)])]


def unsettled_lines(report: Report, with_names: bool = True) -> list[str]:
    """Return what a run left open, but for the time that it would take; ``with_names``: of the cases that failed or
    look changed."""
    if nothing := _nothing_line(report):
        return [nothing]
    unreached = sum(comparison.is_unreached for comparison in report.comparisons)
    unreached_line = f"the run ended before {unreached} of {counted(len(report.comparisons), 'case')} could be compared"
    lines = (
        _undecided_line(report),
        _uncompared_line(report, with_names),
        unreached_line if unreached else "",
        _suspects_line(report, with_names),
    )
    return [line for line in lines if line]


def caveats(report: Report, with_names: bool = True) -> list[str]:
    """Return what a reader must know before relying on the results: why the run can't be trusted or is not complete,
    which files of a suite have errors, and what the run left open (see ``unsettled_lines``). Empty for most runs."""
    why = why_incomplete(report)
    stopped = f"not complete: {why}" if why else ""
    lines = (
        validity_line(report),
        stopped,
        suite_line(report),
        *unsettled_lines(report, with_names),
        time_line(report),
    )
    return [line for line in lines if line]


def suite_line(report: Report) -> str:
    """Return which files and benchmarks of the suite have no cases because of errors; empty for most runs."""
    problems = report.run.suite.problems if report.run.suite else ()
    errors = [line for line in problems if not (line.startswith("addopts: ") or ": Skipped: " in line)]
    return f"{counted(len(errors), 'problem')} of the suite: {listed(errors, separator='; ')}" if errors else ""


def why_incomplete(report: Report) -> str:
    """Return why the run ended before every case was settled; empty if it didn't."""
    return report.run.why_stopped if report.run.is_cut_short and not _is_settled(report) else ""


def _is_settled(report: Report) -> bool:
    """Return whether every case has a verdict, although the run might have gone on: a case that is not slower, say,
    could have been shown to be faster."""
    is_open = any(
        comparison.verdict == "inconclusive" or comparison.is_open_suspect for comparison in report.comparisons
    )
    return not (is_open or report.run.aborted or report.nothing_compared)


def _nothing_line(report: Report) -> str:
    if not report.nothing_compared:
        return ""
    failed, skipped = report.count("failed"), len(report.run.skipped)
    if failed == len(report.comparisons):
        words = ["failed"] if failed else []
        words += ["was skipped by both builds"] if skipped else []
        return f"nothing was compared: {'every case ' + ' or '.join(words) if words else 'there were no cases'}"
    rounds = counted(report.run.rounds or 0, "round")
    return f"nothing was compared: the run ended before any case could be tested ({rounds})"


def _undecided_line(report: Report) -> str:
    """Return that no case came to a verdict, where some failed, as workflows look for it."""
    failed, cases = len(report.uncompared), counted(len(report.comparisons), "case")
    words = f"nothing was compared to a verdict: {failed} of {cases} failed, the others are undecided"
    return words if failed and report.nothing_decided else ""


def _uncompared_line(report: Report, with_names: bool) -> str:
    """Return which cases failed without being a finding, and where."""
    names = [
        f"{comparison.case} ({'both sides' if comparison.failure.side == 'both' else comparison.failure.side})"
        for comparison in worst_first(report.uncompared)
        if comparison.failure
    ]
    words = f"{counted(len(names), 'case')} failed, and could not be compared"
    return "" if not names else f"{words}: {listed(names)}" if with_names else words


def _suspects_line(report: Report, with_names: bool) -> str:
    suspects = [comparison for comparison in worst_first(report.comparisons) if comparison.is_open_suspect]
    if not suspects:
        return ""
    named = listed([f"{comparison.case} {change_text(comparison, comparison.unit)}" for comparison in suspects])
    cases = "1 case looks" if len(suspects) == 1 else f"{len(suspects)} cases look"
    words = f"{cases} changed beyond the threshold, but {'is' if len(suspects) == 1 else 'are'} not settled"
    return f"{words}: {named}" if with_names else words


def not_broken_down_line(report: Report) -> str:
    """Return how many cases have no operator breakdown because the time budget was spent; empty for most runs."""
    count = report.run.not_broken_down
    if count < 1:
        return ""
    cases = counted(count, "case")
    return f"no operator breakdown of {cases}: the time budget was spent; give a larger one"


def validity_line(report: Report) -> str:
    """Return what disturbed the run, how many of its verdicts stand nevertheless, and the fix; empty for a valid run.

    The run as a whole can't be trusted only if no verdict stands. Where every case failed, that was no disturbance.
    """
    validity = report.run.validity
    if not validity.reasons or report.count("failed") == len(report.comparisons):
        return ""
    reasons = "; ".join(validity.reasons)
    withheld = sum(comparison.held_back is not None for comparison in report.comparisons)
    were = "was" if withheld == 1 else "were"
    words = f"; {counted(withheld, 'verdict')} {were} held back" if withheld else ""
    standing = len(report.standing)
    if not validity.hold:
        words = "; verdicts are given all the same (--busy_host report)"
    if not standing or not validity.hold:
        all_the_same = f", {_ALL_THE_SAME}" if withheld else ""
        return f"this run can't be trusted: {reasons}{words}; {_AGAIN}{all_the_same}"
    stand = f"{counted(standing, 'verdict')} {'stands' if standing == 1 else 'stand'} nevertheless"
    if not withheld:
        return f"the host was disturbed: {reasons}; {stand}, and none was held back"
    return f"the host was disturbed: {reasons}; {stand}{words}: give more rounds or time, or {_AGAIN}, {_ALL_THE_SAME}"


def notes(report: Report) -> list[str]:
    """Return what the change can't reach, what both builds skipped, why a run with a verdict on every case ended, the
    host's noise, and the result of an injected slowdown."""
    is_answered = report.run.is_cut_short and _is_settled(report)
    answered_line = f"the run ended with a verdict on every case: {report.run.why_stopped}" if is_answered else ""
    lines = (left_out_line(report), skipped_line(report), answered_line, noise_line(report), injection_line(report))
    return [line for line in lines if line]


def left_out_line(report: Report) -> str:
    """Return how many cases the change can't reach, and how to measure them; empty if none was left out."""
    left_out = report.run.left_out
    if left_out is None or not left_out.cases:
        return ""
    changed = f" ({listed(left_out.changed, 3)})" if left_out.changed else ""
    cases = f"{len(left_out.cases)} of {counted(left_out.total, 'case')}"
    return f"{cases} can't be reached by this change{changed}: left out; --all_cases measures them"


def noise_line(report: Report) -> str:
    """Return how noisy the host was, and what that cost; empty if nothing was measured in blocks."""
    noise = report.run.noise
    words = (noise and noise.words) or ""
    if report.run.validity.reasons:
        words = words.removeprefix(_QUIET)
    return f"noise: {words}" if words else ""


def skipped_line(report: Report) -> str:
    """Return ``2 cases were skipped by both builds: needs AVX512 (2)``; empty if there are none."""
    skipped = report.run.skipped
    if not skipped:
        return ""
    reasons = Counter(skip.reason for skip in skipped).most_common()
    named = listed([f"{reason} ({count})" for reason, count in reasons], separator="; ", more="other reasons")
    were = f"{counted(len(skipped), 'case')} {'was' if len(skipped) == 1 else 'were'}"
    if not report.comparisons:
        were = "the only case was" if len(skipped) == 1 else f"all {len(skipped)} cases were"
    return f"{were} skipped by both builds: {named}"


def injection_line(report: Report) -> str:
    """Return ``injected +5 %: found 9 of 10, missed 1; false alarms 0 of 10``, with the failed cases if any; empty
    if nothing was injected. False alarms are cases called regressed or improved that were not slowed."""
    share = report.configuration.inject
    if not share:
        return ""
    measured = [comparison for comparison in report.comparisons if comparison.verdict != "failed"]
    injected = [comparison.verdict == "regressed" for comparison in measured if comparison.injected]
    clean = [comparison.verdict in FLAGGED for comparison in measured if not comparison.injected]
    detected, failed = sum(injected), len(report.comparisons) - len(measured)
    line = (
        f"injected {float(share) * 100:+.3g} %: found {detected} of {len(injected)}, "
        f"missed {len(injected) - detected}; false alarms {sum(clean)} of {len(clean)}"
    )
    return f"{line}; failed {failed}" if failed else line


def next_line(report: Report) -> str:
    """Return what tells more of cases that changed: ``next: --verify measures again what changed; --explain all says
    why``; empty if none changed, or that is known, and of commits that the driver measures: it says what comes next."""
    flagged = [comparison for comparison in report.comparisons if comparison.verdict in FLAGGED]
    are_commits = bool(report.control.commit and report.treatment.commit)
    is_driven = are_commits and not report.configuration.control
    changed = [] if report.configuration.inject or is_driven else flagged
    steps = [
        "" if any(comparison.verification for comparison in changed) else "--verify measures again what changed",
        "" if any(comparison.cause for comparison in changed) else "--explain all says why",
        f"{command_name('bisect')} finds the commit" if are_commits else "",
    ]
    return f"next: {'; '.join(filter(None, steps))}" if changed and any(steps) else ""
