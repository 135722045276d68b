"""Compare what a report says of injected causes with the truth."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.injected_causes.cause import Cause, Truth
from opduel.comparator.calibration import Rate
from opduel.support.text import counted

ROUNDING = 0.005  # the sentence has whole per cents
NOT_EXPLAINED = "not explained"
AIM = 0.9  # of the causes: named, and with the true share within its interval
COLUMNS = ("cause", "in", "change", "true share", "reported share")

Share = tuple[float, float, float]  # the share, and the limits of its interval


@dataclass(frozen=True)
class ReportedCause:
    """A cause, and what the report says: the case's ratio less 1 (None if the change was not flagged), the sentence,
    and, for each truth with a known share, the reported share (None if there is none)."""

    cause: Cause
    change: float | None
    sentence: str
    shares: Sequence[tuple[Truth, Share | None]] = ()

    @property
    def is_named(self) -> bool:
        """Whether the sentence claims something, and names each part of the truth."""
        if not self.sentence or self.sentence.startswith(NOT_EXPLAINED):
            return False
        return all(re.search(truth.name, self.sentence) for truth in self.cause.truths)

    @property
    def is_within(self) -> bool:
        """Whether each true share lies within the reported interval; of a measured share, whether both overlap."""
        return bool(self.shares) and all(
            share is not None
            and share[1] - ROUNDING - truth.reach <= (truth.share or 0.0) <= share[2] + ROUNDING + truth.reach
            for truth, share in self.shares
        )

    def cells(self) -> list[str]:
        """Return the cells of its row in the table."""
        true_shares = [f"{100 * truth.share:.0f} %" for truth in self.cause.truths if truth.share is not None]
        shares = [
            "none" if share is None else "{:.0f} % [{:.0f}, {:.0f}]".format(*(100 * value for value in share))
            for _, share in self.shares
        ]
        change = "not flagged" if self.change is None else f"{100 * self.change:+.0f} %"
        return [self.cause.name, self.cause.language, change, ", ".join(true_shares) or "-", ", ".join(shares) or "-"]


def compare(cause: Cause, comparison: Mapping[str, Any]) -> ReportedCause:
    """Return the cause beside what its case's comparison, in the report's document, says."""
    reported = comparison.get("cause")
    if not reported:
        return ReportedCause(cause, None, "")
    shares = [
        (truth, _reported_share(truth, reported["examinations"])) for truth in cause.truths if truth.share is not None
    ]
    return ReportedCause(cause, comparison["ratio"] - 1, reported["sentence"], shares)


def _reported_share(truth: Truth, examinations: Sequence[Mapping[str, Any]]) -> Share | None:
    """Return the share that the truth's source reports for its parts, or None.

    Limits of several parts are added: they hold together, and so do their sums. Where some of them are too small to be
    listed, the share of unlisted parts may be theirs.
    """
    for examination in examinations:
        if examination["source"] != truth.source:
            continue
        candidates = [candidate for candidate in examination["candidates"] if candidate["ci"] is not None]
        parts = [candidate for candidate in candidates if _matches(truth.parts or truth.name, candidate)]
        if parts:
            low, high = (sum(part["ci"][limit] for part in parts) for limit in (0, 1))
            unlisted = 1 - sum(candidate["share"] for candidate in candidates) if truth.parts else 0.0
            return sum(part["share"] for part in parts), low + min(0.0, unlisted), high + max(0.0, unlisted)
    return None


def _matches(pattern: str, part: Mapping[str, Any]) -> bool:
    return any(re.search(pattern, name) for name in (part["name"], part["was"], *part["merged"]))


@dataclass(frozen=True)
class EqualBuilds:
    """The sentences about cases of equal builds, and the seconds that all of them took."""

    seconds: float
    sentences: Sequence[str]

    @property
    def claims(self) -> list[str]:
        """The sentences that claim something."""
        return [sentence for sentence in self.sentences if not sentence.startswith(NOT_EXPLAINED)]


def misses_aim(causes: Sequence[ReportedCause], equal_builds: Mapping[str, EqualBuilds]) -> bool:
    """Return whether too few causes are named or within, or anything is claimed of equal builds."""
    rates = named_and_within(causes)
    missed = any((rate.share or 0.0) < AIM for rate in rates if rate.of)
    return missed or any(builds.claims for builds in equal_builds.values())


def named_and_within(causes: Sequence[ReportedCause]) -> tuple[Rate, Rate]:
    """Return how many causes were named, and how many of those with a known share have it within the interval."""
    with_share = [cause for cause in causes if any(truth.share is not None for truth in cause.cause.truths)]
    named = sum(cause.is_named for cause in causes)
    return Rate(named, len(causes)), Rate(sum(cause.is_within for cause in with_share), len(with_share))


def table(causes: Sequence[ReportedCause]) -> list[str]:
    """Return the table in Markdown: a row for each cause, its change, and true and reported shares."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(cause.cells() for cause in causes)]
    return [f"| {' | '.join(row)} |" for row in rows]


def summary(causes: Sequence[ReportedCause], equal_builds: Mapping[str, EqualBuilds]) -> list[str]:
    """Return all counts with their exact intervals, and what was missed or claimed."""
    named, within = named_and_within(causes)
    counts = f"{_rate_text(named)} named, {_rate_text(within)} with the true share in its interval"
    lines = ["", f"{counted(len(causes), 'cause')}: {counts}"]
    for cause in causes:
        if not cause.is_named:
            lines.append(f"not named: {cause.cause.name}: {cause.sentence or 'its case was not flagged'}")
        elif cause.shares and not cause.is_within:
            lines.append(f"share outside: {cause.cause.name}: {cause.sentence}")
    for name, builds in equal_builds.items():
        claimed = _rate_text(Rate(len(builds.claims), len(builds.sentences)))
        cost = f"{counted(len(builds.sentences), 'case')} took {builds.seconds:.0f} s"
        lines.append(f"control and {name}: {claimed} claimed; {cost}")
        lines += [f"claimed: {claim}" for claim in builds.claims]
    return lines


def _rate_text(rate: Rate) -> str:
    low, high = rate.interval
    return f"{rate.count} of {rate.of} [{low:.0%}, {high:.0%}]"
