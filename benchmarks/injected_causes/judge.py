"""What a report says of injected causes, compared with what is true of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.injected_causes.cause import Cause, Truth
from opduel.comparator.calibration import Rate
from opduel.records.text import counted

HALF_A_POINT = 0.005  # the sentence has whole percents
NOT_EXPLAINED = "not explained"
AIM = 0.9  # of the causes: named, and with the true share within its interval


@dataclass(frozen=True)
class Judged:
    """A cause, and what became of it: ``change`` is the case's ratio less 1, None where the change was not flagged.

    ``shares``: of each truth with a known share, the share found and its limits; None: the source has none.
    """

    cause: Cause
    change: float | None
    sentence: str
    shares: Sequence[tuple[Truth, tuple[float, float, float] | None]] = ()

    @property
    def is_named(self) -> bool:
        """Whether the sentence claims something, and has a name for each part of the truth."""
        if not self.sentence or (self.sentence.startswith(NOT_EXPLAINED)):
            return False
        return all(re.search(truth.name, self.sentence) for truth in self.cause.truths)

    @property
    def has_share(self) -> bool:
        """Whether the true share is known beforehand, and the cause was looked for."""
        return bool(self.shares)

    @property
    def is_within(self) -> bool:
        """Whether each true share is within the interval that was claimed, in whole percents; of one that was measured,
        whether the two intervals overlap."""
        return all(
            found is not None
            and found[1] - HALF_A_POINT - truth.reach <= (truth.share or 0.0) <= found[2] + HALF_A_POINT + truth.reach
            for truth, found in self.shares
        )


def judged(cause: Cause, comparison: Mapping[str, Any]) -> Judged:
    """A case's comparison, as the report's document has it, beside the truth."""
    found = comparison.get("cause")
    if not found:
        return Judged(cause, None, "")
    change = comparison["ratio"] - 1
    known = [truth for truth in cause.truths if truth.share is not None]
    shares = [(truth, _share(truth, found["examinations"])) for truth in known]
    return Judged(cause, change, found["sentence"], shares)


def _share(truth: Truth, examinations: Sequence[Mapping[str, Any]]) -> tuple[float, float, float] | None:
    """The share and its limits that the truth's source claims for its parts; None if it claims none.

    Limits of several parts are added: they hold together, and so do their sums. Where some of them are too small to be
    listed, what no listed part has may be theirs.
    """
    for one in examinations:
        if one["source"] != truth.source:
            continue
        parts = [
            part for part in one["candidates"] if part["ci"] is not None and _matches(truth.parts or truth.name, part)
        ]
        if parts:
            low, high = (sum(part["ci"][end] for part in parts) for end in (0, 1))
            unlisted = (
                1 - sum(part["share"] for part in one["candidates"] if part["ci"] is not None) if truth.parts else 0
            )
            return sum(part["share"] for part in parts), low + min(0.0, unlisted), high + max(0.0, unlisted)
    return None


def _matches(pattern: str, part: Mapping[str, Any]) -> bool:
    return any(re.search(pattern, name) for name in (part["name"], part["was"], *part["merged"]))


@dataclass(frozen=True)
class Equal:
    """What was said of equal builds, and in how many seconds all of it was found."""

    seconds: float
    sentences: Sequence[str]

    @property
    def claims(self) -> list[str]:
        """The sentences that claim something."""
        return [one for one in self.sentences if not one.startswith(NOT_EXPLAINED)]


def is_bad(found: Sequence[Judged], equal: Mapping[str, Equal]) -> bool:
    """Whether an aim is missed."""
    rates = named_and_within(found)
    return any((one.share or 0.0) < AIM for one in rates if one.of) or any(one.claims for one in equal.values())


def named_and_within(found: Sequence[Judged]) -> tuple[Rate, Rate]:
    """How many were named; and of those with a known share how many have it within the interval."""
    known = [one for one in found if any(truth.share is not None for truth in one.cause.truths)]
    return (
        Rate(sum(one.is_named for one in found), len(found)),
        Rate(sum(one.has_share and one.is_within for one in known), len(known)),
    )


def table(found: Sequence[Judged], markdown: bool) -> list[str]:
    """A line for each cause: how far the case changed, whether it was named, and true and found shares."""
    head = ("cause", "kind", "in", "change", "named", "true share", "found")
    rows = [head, *(_row(one) for one in found)]
    if markdown:
        return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows[1:])]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(one: Judged) -> tuple[str, ...]:
    cause = one.cause
    change = "not flagged" if one.change is None else f"{one.change:+.0%}"
    true = ", ".join(f"{truth.share:.0%}" for truth in cause.truths if truth.share is not None) or "-"
    shares = ", ".join("none" if seen is None else "{:.0%} [{:.0%}, {:.0%}]".format(*seen) for _, seen in one.shares)
    outside = "" if not one.has_share or one.is_within else " (outside)"
    named = "yes" if one.is_named else "no"
    return cause.name, cause.kind, cause.language, change, named, true, (shares or "-") + outside


def summary(found: Sequence[Judged], equal: Mapping[str, Equal]) -> list[str]:
    """All counts with their intervals, and what was missed."""
    named, within = named_and_within(found)
    kinds = len({one.cause.kind for one in found})
    counts = f"{_rate(named)} named, {_rate(within)} with the true share in its interval"
    lines = ["", f"{counted(len(found), 'cause')} of {counted(kinds, 'kind')}: {counts}"]
    missed = [one for one in found if not one.is_named]
    lines += [f"not named: {one.cause.name}: {one.sentence or 'its case was not flagged'}" for one in missed]
    lines += [f"share: {one.cause.name}: {one.sentence}" for one in found if one.is_named and not one.is_within]
    for name, said in equal.items():
        claimed = Rate(len(said.claims), len(said.sentences))
        took = f"{counted(len(said.sentences), 'case')} took {said.seconds:.0f} s"
        lines.append(f"control and {name}: {_rate(claimed)} claimed; {took}")
        lines += [f"claimed: {one}" for one in said.claims]
    return lines


def _rate(rate: Rate) -> str:
    low, high = rate.interval
    return f"{rate.count} of {rate.of} [{low:.0%}, {high:.0%}]"
