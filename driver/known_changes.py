"""The changes that earlier investigations found, kept in the journal, so that later ones need not search for them."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from opduel.driver.attribution import KnownChange, PlacedChange, place_on_line
from opduel.driver.journal import Journal
from opduel.support.digests import data_digest
from opduel.support.validation import explain

T = TypeVar("T")

_CHANGES = TypeAdapter(list[KnownChange])
_BY_CASE = TypeAdapter(dict[str, list[KnownChange]])

log = logging.getLogger(__name__)


class KnownChanges:
    """The known changes on one line, as they were when its investigation began: a resumed one uses the same ones."""

    def __init__(self, journal: Journal, settings: str, line: str, names: Sequence[str]) -> None:
        """``settings`` identifies how changes are measured: those of other settings don't count. ``line`` is the name
        of the investigation, ``names`` are those of its revisions, the control first."""
        self._journal = journal
        self._prefix = f"known/{data_digest(settings)[:16]}/"
        self._line = line
        self._names = names

    def at_beginning(self) -> dict[str, tuple[PlacedChange, ...]]:
        """Return the changes on the line by case, without those that this investigation found itself."""
        fact = f"{self._line}/known"
        changes_by_case = _read(_BY_CASE, self._journal.get_fact(fact))
        if changes_by_case is None:
            changes_by_case = {}
            for name, text in self._journal.facts(self._prefix).items():
                earlier = [change for change in _changes(text) if change.line != self._line]
                case = name.removeprefix(self._prefix)
                changes_by_case[case] = [placed.known_change for placed in self._placed(earlier)]
            self._journal.set_fact(fact, json.dumps(_BY_CASE.dump_python(changes_by_case)))
        return {case: placed for case, changes in changes_by_case.items() if (placed := self._placed(changes))}

    def record(self, new_by_case: Mapping[str, Sequence[KnownChange]]) -> None:
        """Keep the changes that this investigation found, unless that was done before.

        They replace known changes whose range encloses a new culprit.
        """
        if self._journal.get_fact(f"{self._line}/recorded") is not None:
            return
        facts = {f"{self._line}/recorded": "yes"}
        for case, new in new_by_case.items():
            text = self._journal.get_fact(f"{self._prefix}{case}")
            before = [change for change in _changes(text) if change.line != self._line]
            culprits = [placed.range for placed in self._placed(new) if placed.known_change.is_culprit]
            enclosing = [
                placed.known_change
                for placed in self._placed(before)
                if any(placed.range[0] <= start and end <= placed.range[1] for start, end in culprits)
            ]
            remaining = [change for change in before if change not in enclosing]
            facts[f"{self._prefix}{case}"] = json.dumps(_CHANGES.dump_python([*remaining, *new]))
        self._journal.set_facts(facts)

    def _placed(self, changes: Sequence[KnownChange]) -> tuple[PlacedChange, ...]:
        return place_on_line(changes, self._names)


def _changes(text: str | None) -> list[KnownChange]:
    return _read(_CHANGES, text) or []


def _read(adapter: TypeAdapter[T], text: str | None) -> T | None:
    """Return a note of the journal; None without one, or if it is damaged."""
    try:
        return None if text is None else adapter.validate_json(text)
    except ValidationError as error:
        log.warning("a note of known changes in the journal is damaged (%s): skipped", explain(error))
        return None
