"""The changes that earlier investigations found, kept in the journal, so that later ones need not search for them."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from opduel.driver.attribution import Change, KnownChange, PlacedChange, place_on_line
from opduel.driver.journal import Journal

log = logging.getLogger(__name__)


class KnownChanges:
    """The known changes on one line, as they were when its investigation began: a resumed one uses the same ones."""

    def __init__(self, journal: Journal, settings: str, line: str, names: Sequence[str]) -> None:
        """``settings`` identifies how changes are measured: those of other settings don't count. ``line`` is the name
        of the investigation, ``names`` are those of its revisions, the control first."""
        self._journal = journal
        self._prefix = f"known/{hashlib.sha256(settings.encode()).hexdigest()[:16]}/"
        self._line = line
        self._names = names

    def at_beginning(self) -> dict[str, tuple[PlacedChange, ...]]:
        """Return the changes on the line by case, without those that this investigation found itself."""
        fact = f"{self._line}/known"
        entries_by_case = _parsed(self._journal.get_fact(fact))
        if not isinstance(entries_by_case, dict):
            entries_by_case = {case: list(map(asdict, changes)) for case, changes in self._current().items()}
            self._journal.set_fact(fact, json.dumps(entries_by_case))
        changes_by_case = {
            case: place_on_line(_read(entries), self._names) for case, entries in entries_by_case.items()
        }
        return {case: changes for case, changes in changes_by_case.items() if changes}

    def record(self, new_by_case: Mapping[str, Sequence[KnownChange]]) -> None:
        """Keep the changes that this investigation found, unless that was done before.

        They replace known changes whose range encloses a new culprit.
        """
        if self._journal.get_fact(f"{self._line}/recorded") is not None:
            return
        facts = {f"{self._line}/recorded": "yes"}
        for case, new in new_by_case.items():
            text = self._journal.get_fact(f"{self._prefix}{case}")
            before = [change for change in _read(_parsed(text)) if change.line != self._line]
            ranges = [
                placed_change.range
                for placed_change in place_on_line(new, self._names)
                if placed_change.known_change.is_culprit
            ]
            enclosing = [
                placed_change.known_change
                for placed_change in place_on_line(before, self._names)
                if any(placed_change.range[0] <= start and end <= placed_change.range[1] for start, end in ranges)
            ]
            remaining = [change for change in before if change not in enclosing]
            facts[f"{self._prefix}{case}"] = json.dumps([asdict(change) for change in (*remaining, *new)])
        self._journal.set_facts(facts)

    def _current(self) -> dict[str, list[KnownChange]]:
        """Return what other investigations have found by now on this line, by case."""
        text_by_case = {
            name.removeprefix(self._prefix): text for name, text in self._journal.facts(self._prefix).items()
        }
        of_others = {
            case: [change for change in _read(_parsed(text)) if change.line != self._line]
            for case, text in text_by_case.items()
        }
        return {
            case: [placed_change.known_change for placed_change in place_on_line(entries, self._names)]
            for case, entries in of_others.items()
        }


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text or "[]")
    except ValueError as error:
        log.warning("a note of known changes in the journal can't be read (%s): skipped", error)
        return []


def _read(entries: Any) -> list[KnownChange]:
    """Return the changes of a note in the journal; none if it is damaged."""
    try:
        changes = [entry["change"] and Change(**entry["change"]) for entry in entries]
        return [
            KnownChange(**{**entry, "change": change, "evidence": tuple(entry["evidence"])})
            for entry, change in zip(entries, changes, strict=True)
        ]
    except (TypeError, KeyError, AttributeError) as error:
        log.warning("a note of known changes in the journal is damaged (%s): skipped", error)
        return []
