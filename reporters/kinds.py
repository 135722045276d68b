"""The verdicts of each kind of host, case by case, of a run that several kinds measured, each by itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opduel.records import CLAIMS, Comparison, Report
from opduel.reporters.changes import change_text
from opduel.support.text import counted, listed

# Verdict -> what may be true of the case; for verdicts that are not here, anything.
_POSSIBLE: dict[str, frozenset[str]] = {
    "regressed": frozenset({"worse"}),
    "improved": frozenset({"better"}),
    "unchanged": frozenset({"within"}),
    "not_worse": frozenset({"better", "within"}),
    "not_better": frozenset({"worse", "within"}),
    "failed": frozenset({"broken"}),
}


@dataclass(frozen=True)
class KindsRow:
    """A case, and its comparison on each kind of host: None where it was not to be measured."""

    case: str
    comparisons: Sequence[Comparison | None]

    @property
    def differs(self) -> bool:
        """Whether the kinds are known to differ: their verdicts exclude each other.

        Each verdict was made with its own error control: a change beyond the threshold, in either direction, or none
        that large. An inconclusive case, or one that could not be measured, says nothing of a difference; one that the
        treatment breaks on one kind and not on another does.
        """
        verdicts = {
            comparison.finding or comparison.verdict
            for comparison in self.comparisons
            if comparison and (comparison.finding or comparison.verdict in CLAIMS)
        }
        return bool(verdicts) and not frozenset.intersection(*(_POSSIBLE[verdict] for verdict in verdicts))

    @property
    def is_worth_showing(self) -> bool:
        """Whether any kind has a finding."""
        return any(comparison is not None and comparison.finding for comparison in self.comparisons)


@dataclass(frozen=True)
class KindsTable:
    """The names of the kinds, and a row for each case: those that differ first, then other findings, then the rest."""

    kinds: Sequence[str]
    rows: Sequence[KindsRow]

    @property
    def notable_rows(self) -> list[KindsRow]:
        """The cases with a finding on any kind."""
        return [row for row in self.rows if row.is_worth_showing]

    @property
    def summary(self) -> str:
        """How many cases differ by kind, and which, in a line."""
        differing = [row.case for row in self.rows if row.differs]
        if not differing:
            return f"no case is known to differ between the {counted(len(self.kinds), 'kind')} of host"
        verb = "differs" if len(differing) == 1 else "differ"
        return f"{counted(len(differing), 'case')} {verb} by kind of host: {listed(differing)}"


def kinds_table(report: Report) -> KindsTable | None:
    """Return the table of ``report``; None for a run that was not measured by kind."""
    kinds = _kinds(report)
    if not kinds:
        return None
    comparisons_by_case: dict[str, dict[str, Comparison]] = {}
    for comparison in report.comparisons:
        comparisons_by_case.setdefault(comparison.any_kind, {})[comparison.kind or ""] = comparison
    rows = [KindsRow(case, [of_kind.get(kind) for kind in kinds]) for case, of_kind in comparisons_by_case.items()]
    return KindsTable(kinds, sorted(rows, key=lambda row: (not row.differs, not row.is_worth_showing)))


def kinds_text(report: Report) -> str:
    """Return the kinds and their hosts: ``avx2: bench-1, bench-2; avx512f: bench-3``; empty for a run not measured
    by kind."""
    kinds = report.run.fleet.kinds if report.run.fleet else ()
    return "; ".join(f"{kind.name}: {', '.join(kind.hosts) or 'no host'}" for kind in kinds if kind.name)


def verdict_text(comparison: Comparison | None) -> str:
    """Return a cell of the table: the verdict, and the change if there is one."""
    if comparison is None:
        return "-"
    if comparison.verdict == "inconclusive" and not comparison.rounds:
        return "not measured"
    return (
        comparison.verdict_words
        if comparison.ratio is None and comparison.difference is None
        else f"{comparison.verdict_words} {change_text(comparison, comparison.unit)}"
    )


def _kinds(report: Report) -> list[str]:
    named: Iterable[str] = [kind.name for kind in report.run.fleet.kinds] if report.run.fleet else []
    rows = [comparison.kind for comparison in report.comparisons if comparison.kind is not None]
    return list(dict.fromkeys([*filter(None, named), *rows])) if rows else []
