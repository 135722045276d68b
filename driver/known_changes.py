"""The changes that earlier investigations found, kept in the journal: what a later line need not look for again."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from opduel.driver.attribution import Change, Known, Placed, placed
from opduel.driver.journal import Journal

log = logging.getLogger(__name__)


class KnownChanges:
    """Of one line, as they were when its investigation began: a later start decides by the same ones."""

    def __init__(self, journal: Journal, settings: str, line: str, names: Sequence[str]) -> None:
        """``settings``: those of other settings are of other measurements. ``line``: the investigation; ``names``: its
        points, the control first."""
        self._journal = journal
        self._prefix = f"known/{hashlib.sha256(settings.encode()).hexdigest()[:16]}/"
        self._line = line
        self._names = names

    def at_beginning(self) -> dict[str, tuple[Placed, ...]]:
        """By case, those that lie on the line, without those that it found itself at an earlier time."""
        fact = f"{self._line}/known"
        kept = _parsed(self._journal.get_fact(fact))
        if not isinstance(kept, dict):
            kept = {case: list(map(asdict, known)) for case, known in self._now().items()}
            self._journal.set_fact(fact, json.dumps(kept))
        found = {case: placed(_read(entries), self._names) for case, entries in kept.items()}
        return {case: known for case, known in found.items() if known}

    def record(self, found: Mapping[str, Sequence[Known]]) -> None:
        """Keep what the line's investigation found, by case; once. It replaces what encloses a culprit that is new."""
        if self._journal.get_fact(f"{self._line}/recorded") is not None:
            return
        facts = {f"{self._line}/recorded": "yes"}
        for case, new in found.items():
            text = self._journal.get_fact(f"{self._prefix}{case}")
            before = [one for one in _read(_parsed(text)) if one.line != self._line]
            ranges = [one.range for one in placed(new, self._names) if one.known.is_culprit]
            enclosing = [
                one.known
                for one in placed(before, self._names)
                if any(one.range[0] <= left and right <= one.range[1] for left, right in ranges)
            ]
            kept = [one for one in before if one not in enclosing]
            facts[f"{self._prefix}{case}"] = json.dumps([asdict(one) for one in (*kept, *new)])
        self._journal.set_facts(facts)

    def _now(self) -> dict[str, list[Known]]:
        known = {name.removeprefix(self._prefix): text for name, text in self._journal.facts(self._prefix).items()}
        of_others = {
            case: [one for one in _read(_parsed(text)) if one.line != self._line] for case, text in known.items()
        }
        return {case: [one.known for one in placed(entries, self._names)] for case, entries in of_others.items()}


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text or "[]")
    except ValueError as error:
        log.warning("a note of known changes in the journal can't be read (%s): skipped", error)
        return []


def _read(entries: Any) -> list[Known]:
    """The changes that were kept; none where something else was."""
    try:
        changes = [one["change"] and Change(**one["change"]) for one in entries]
        return [
            Known(**{**one, "change": change, "evidence": tuple(one["evidence"])})
            for one, change in zip(entries, changes, strict=True)
        ]
    except (TypeError, KeyError, AttributeError) as error:
        log.warning("a note of known changes in the journal is damaged (%s): skipped", error)
        return []
