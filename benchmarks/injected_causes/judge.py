"""Compare what a report says of injected causes with the truth."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.injected_causes.cause import Cause, Truth
from benchmarks.markdown import rate_text
from opduel.comparator.calibration import Rate
from opduel.records import Cause as NamedCause
from opduel.records import Comparison
from opduel.support.text import counted

ROUNDING = 0.005  # the sentence has whole per cents
AIM = 0.9  # of the causes: named, and with the true share within its interval
COLUMNS = ("cause", "in", "change", "true share", "reported share")

Share = tuple[float, float, float]  # the share, and the limits of its interval


@dataclass(frozen=True)
class ReportedCause:
    """A cause, and what the report says: the case's ratio less 1 (None if the change was not flagged), the sentence,
    and, for each truth with a known share, the reported share (not a number if there is none)."""

    cause: Cause
    change: float | None = None
    sentence: str = ""
    is_named: bool = False
    shares: Sequence[tuple[Truth, Share]] = ()

    @property
    def is_within(self) -> bool:
        """Whether each true share lies within the reported interval."""
        return bool(self.shares) and all(
            low - ROUNDING <= (truth.share or 0.0) <= high + ROUNDING for truth, (_, low, high) in self.shares
        )

    def cells(self) -> list[str]:
        """Return the cells of its row in the table."""
        true_shares = [f"{100 * truth.share:.0f} %" for truth in self.cause.truths if truth.share is not None]
        shares = [f"{100 * share:.0f} % [{100 * low:.0f}, {100 * high:.0f}]" for _, (share, low, high) in self.shares]
        change = "not flagged" if self.change is None else f"{100 * self.change:+.0f} %"
        return [self.cause.name, self.cause.language, change, ", ".join(true_shares) or "-", ", ".join(shares) or "-"]


def compare(cause: Cause, comparison: Comparison) -> ReportedCause:
    """Return the cause beside what its case's comparison says: it is named where the sentence claims something, and
    has each part of the truth."""
    reported = comparison.cause
    if reported is None or comparison.ratio is None:
        return ReportedCause(cause)
    has_all = all(re.search(truth.name, reported.sentence) for truth in cause.truths)
    shares = [(truth, _reported_share(truth, reported)) for truth in cause.truths if truth.share is not None]
    return ReportedCause(cause, comparison.ratio - 1, reported.sentence, reported.is_explained and has_all, shares)


def _reported_share(truth: Truth, reported: NamedCause) -> Share:
    """Return the share that the truth's source reports for its parts, or not-a-numbers.

    Limits of several parts are added: they hold together, and so do their sums. Where some of them are too small to be
    listed, the share of unlisted parts may be theirs.
    """
    for examination in reported.examinations:
        if examination.source != truth.source:
            continue
        shares = {part: (part.share or 0.0, *part.ci) for part in examination.candidates if part.ci}
        pattern = re.compile(truth.parts or truth.name)
        matching = [
            share for part, share in shares.items() if any(map(pattern.search, (part.name, part.was, *part.merged)))
        ]
        if matching:
            share, low, high = map(sum, zip(*matching, strict=True))
            unlisted = 1 - sum(share for share, _, _ in shares.values()) if truth.parts else 0.0
            return share, low + min(0.0, unlisted), high + max(0.0, unlisted)
    return math.nan, math.nan, math.nan


def judge(causes: Sequence[ReportedCause], equal_builds: Mapping[str, Sequence[str]]) -> tuple[bool, list[str]]:
    """Return whether the aim is reached, and the counts with what was missed or claimed. ``equal_builds``: the
    sentences about each of the builds that equal the control."""
    with_share = [cause for cause in causes if any(truth.share is not None for truth in cause.cause.truths)]
    named = Rate(sum(cause.is_named for cause in causes), len(causes))
    within = Rate(sum(cause.is_within for cause in with_share), len(with_share))
    is_reached = all((rate.share or 0.0) >= AIM for rate in (named, within) if rate.of)
    counts = f"{rate_text(named)} named, {rate_text(within)} with the true share in its interval"
    lines = ["", f"{counted(len(causes), 'cause')}: {counts}"]
    for cause in causes:
        if not cause.is_named:
            lines.append(f"not named: {cause.cause.name}: {cause.sentence or 'its case was not flagged'}")
        elif cause.shares and not cause.is_within:
            lines.append(f"share outside: {cause.cause.name}: {cause.sentence}")
    for name, sentences in equal_builds.items():
        claims = [sentence for sentence in sentences if NamedCause(sentence).is_explained]
        is_reached = is_reached and not claims
        lines.append(f"control and {name}: {rate_text(Rate(len(claims), len(sentences)))} claimed")
        lines += [f"claimed: {claim}" for claim in claims]
    return is_reached, lines
