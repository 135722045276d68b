"""What a whole run comes to: cases worst first, and what became of an injected slowdown."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from records import Comparison, Report, Verdict

WORST_FIRST: tuple[Verdict, ...] = ("regressed", "failed", "inconclusive", "improved", "unchanged")
Conclusion = Literal["regressed", "incomplete", "done"]


def effect_size(comparison: Comparison) -> float:
    """The size of the change, |ln ratio|, whichever way it went; 0 when there is no ratio."""
    ratio = comparison.ratio
    if ratio is None or math.isnan(ratio):
        return 0.0
    return abs(math.log(ratio)) if 0 < ratio < math.inf else math.inf


def worst_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Sorted by verdict (``WORST_FIRST``), then the largest change first, then by case."""
    return sorted(comparisons, key=lambda one: (WORST_FIRST.index(one.verdict), -effect_size(one), one.case))


def is_worse(one: Comparison) -> bool:
    """Whether the treatment made it slower or larger, or breaks it."""
    return one.verdict == "regressed" or one.is_broken_by_treatment


def conclusion(report: Report) -> Conclusion:
    """What the run came to. A case that the treatment breaks is a regression, whatever was held back; a run that broke,
    whose verdicts were held back or in which nothing could be compared, is incomplete."""
    if report.run.get("broken"):
        return "incomplete"
    if any(map(is_worse, report.comparisons)):
        return "regressed"
    held = any(one.held_back for one in report.comparisons)
    return "incomplete" if held or all(one.failure for one in report.comparisons) else "done"


def distrust_line(report: Report) -> str:
    """Why the run can't be trusted, what that did to its verdicts, and the mend; empty for a run that can."""
    trust = report.run.get("trust")
    reasons = trust.get("reasons") if isinstance(trust, Mapping) else None
    if not isinstance(reasons, list | tuple) or not reasons:
        return ""
    held = sum(one.held_back is not None for one in report.comparisons)
    done = f"{held} verdict{'' if held == 1 else 's'} held back" if held else "no verdict was held back"
    return f"can't be trusted: {'; '.join(map(str, reasons))}; {done}; measure again when the machine is quiet"


@dataclass(frozen=True)
class Injection:
    """What became of an injected slowdown of ``share``. Failed cases are counted apart, in ``failed`` alone.

    ``found`` of ``injected`` cases were called regressed; ``false_alarms`` of ``clean`` cases, into which nothing was
    injected, were called regressed or improved.
    """

    share: float
    found: int
    injected: int
    false_alarms: int
    clean: int
    failed: int

    @property
    def missed(self) -> int:
        """Injected cases called anything but regressed."""
        return self.injected - self.found


def injection(report: Report) -> Injection | None:
    """What became of the run's injected slowdown; None when the run had none."""
    share = report.run.get("inject")
    if isinstance(share, bool) or not isinstance(share, int | float):
        return None
    measured = [one for one in report.comparisons if one.verdict != "failed"]
    injected = [one for one in measured if one.injected]
    clean = [one for one in measured if not one.injected]
    return Injection(
        share=float(share),
        found=sum(one.verdict == "regressed" for one in injected),
        injected=len(injected),
        false_alarms=sum(one.verdict in ("regressed", "improved") for one in clean),
        clean=len(clean),
        failed=len(report.comparisons) - len(measured),
    )


def injection_line(outcome: Injection) -> str:
    """``injected +5 %: found 9 of 10, missed 1; false alarms 0 of 10``, and the failed ones if any."""
    line = (
        f"injected {outcome.share * 100:+.3g} %: found {outcome.found} of {outcome.injected}, "
        f"missed {outcome.missed}; false alarms {outcome.false_alarms} of {outcome.clean}"
    )
    return f"{line}; failed {outcome.failed}" if outcome.failed else line
