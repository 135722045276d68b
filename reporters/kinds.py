"""What each kind of host came to, case by case: of a run that several kinds measured, each by itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opduel.records import CLAIMS, Comparison, Report
from opduel.records.text import counted
from opduel.reporters.units import human_change

_MOST_NAMED = 5
# What may be true of a case with a verdict; of one that is left out here, anything.
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
    """A case, and what was found of it on each kind of host: None where it was not to be measured."""

    case: str
    found: Sequence[Comparison | None]

    @property
    def differs(self) -> bool:
        """Whether the kinds are known to differ: their verdicts exclude each other.

        Each verdict was made with its own error control: a change beyond the threshold, in either direction, or none
        that large. An inconclusive case, or one that could not be measured, says nothing of a difference; one that the
        treatment breaks on one kind and not on another does.
        """
        known = {one.finding or one.verdict for one in self.found if one and (one.finding or one.verdict in CLAIMS)}
        return bool(known) and not frozenset.intersection(*(_POSSIBLE[verdict] for verdict in known))

    @property
    def is_worth_showing(self) -> bool:
        """Whether any kind has a finding."""
        return any(one is not None and one.finding for one in self.found)


@dataclass(frozen=True)
class KindsTable:
    """The names of the kinds, and a row for each case: those that differ first, then other findings, then the rest."""

    kinds: Sequence[str]
    rows: Sequence[KindsRow]

    @property
    def differing(self) -> list[KindsRow]:
        """The cases that differ by kind."""
        return [row for row in self.rows if row.differs]

    @property
    def shown(self) -> list[KindsRow]:
        """The cases with a finding on any kind."""
        return [row for row in self.rows if row.is_worth_showing]

    @property
    def summary(self) -> str:
        """How many cases differ by kind, and which, in a line."""
        found = self.differing
        if not found:
            return f"no case is known to differ between the {counted(len(self.kinds), 'kind')} of host"
        named = ", ".join(row.case for row in found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        return (
            f"{counted(len(found), 'case')} {'differs' if len(found) == 1 else 'differ'} by kind of host: {named}{more}"
        )


def kinds_table(report: Report) -> KindsTable | None:
    """The table of ``report``; None for a run that was not measured by kind."""
    kinds = _kinds(report)
    if not kinds:
        return None
    found: dict[str, dict[str, Comparison]] = {}
    for one in report.comparisons:
        found.setdefault(one.any_kind, {})[one.kind or ""] = one
    rows = [KindsRow(case, [of_kind.get(kind) for kind in kinds]) for case, of_kind in found.items()]
    return KindsTable(kinds, sorted(rows, key=lambda row: (not row.differs, not row.is_worth_showing)))


def kinds_text(report: Report) -> str:
    """``avx2: bench-1, bench-2; avx512f: bench-3``: the kinds and their hosts; empty for a run not measured by kind."""
    kinds = report.run.fleet.kinds if report.run.fleet else ()
    return "; ".join(f"{one.name}: {', '.join(one.hosts) or 'no host'}" for one in kinds if one.name)


def verdict_text(one: Comparison | None) -> str:
    """A cell of the table: the verdict, and the change where there is one."""
    if one is None:
        return "-"
    if one.verdict == "inconclusive" and not one.rounds:
        return "not measured"
    return one.verdict_words if one.ratio is None else f"{one.verdict_words} {human_change(one.ratio)}"


def _kinds(report: Report) -> list[str]:
    known: Iterable[str] = [one.name for one in report.run.fleet.kinds] if report.run.fleet else []
    rows = [one.kind for one in report.comparisons if one.kind is not None]
    return list(dict.fromkeys([*filter(None, known), *rows])) if rows else []
