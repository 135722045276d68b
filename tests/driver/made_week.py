"""Investigations one after the other, as the commits of a week land, on levels that a test knows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from made_runs import MadeHarness, MadePoint

from opduel.driver.investigation import Investigation
from opduel.driver.journal import Journal
from opduel.driver.outcome import Outcome
from opduel.driver.runs import Runs
from opduel.records import Verdict

WORSE: Sequence[Verdict] = ("regressed", "failed")


class Week:
    """Commits p0, p1, ...; each investigation is of a line from ``first`` to one of them, on the same journal."""

    def __init__(self, folder: Path, **cases: Sequence[float | None]) -> None:
        self.path = folder / "journal.db"
        levels = {case: {f"p{number}": level for number, level in enumerate(of)} for case, of in cases.items()}
        self.harness = MadeHarness(levels)
        self.revisions = [MadePoint(number) for number in range(max(map(len, cases.values())))]

    def land(self, last: int, first: int = 0, settings: str = "", again: bool = False, **more: Any) -> Outcome:
        """Investigate the line from ``first`` to ``last``."""
        journal = Journal(self.path)
        try:
            runs = Runs(journal, self.harness, 0.0, lambda _: None)
            revisions = [
                revision
                for revision in self.revisions[first : last + 1]
                if revision.number not in more.get("without", ())
            ]
            investigation = Investigation(revisions, runs, journal, settings)
            if again:
                runs.forget(investigation.name)
            return investigation.investigate(more.get("sought", WORSE))
        finally:
            journal.close()

    def runs_since(self, before: int) -> list[tuple[str, str, str]]:
        orders = self.harness.orders[before:]
        return [(order.run_type, order.control.requested, order.treatment.requested) for order in orders]

    @property
    def count(self) -> int:
        return len(self.harness.orders)


def culprits_of(outcome: Outcome) -> list[tuple[str, tuple[str, ...]]]:
    return [(culprit.revisions[-1].name, tuple(culprit.range.cases)) for culprit in outcome.culprits or ()]


def known_culprits(outcome: Outcome) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.revisions[-1].name, tuple(item.range.cases)) for item in outcome.known_culprits]
