"""Causes of changes: as the table keeps them, and as the page of a case shows them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from opduel.records import Cause, Examination
from opduel.reporters.cause_text import caption, cells, without_frames
from opduel.reporters.html.cases import flame_data, implementation_rows
from opduel.reporters.text import printable
from opduel.server.models import CauseFound, fit
from opduel.server.queries import causes_of

_MOST_SHOWN = 10  # on a page, the latest
_LONGEST_SENTENCE = 1000  # characters
_WITH_CALLERS = ("Python functions", "native functions")  # sources that see a call as a tree
_ADAPTER = TypeAdapter(Cause)


@dataclass(frozen=True)
class ExaminationShown:
    """What one source saw: its caption, a row of cells for each candidate, primitives with their implementations, and
    its note; all printable. ``may_have_frames``: the report may have its flame graph."""

    caption: str
    rows: Sequence[Sequence[str]]
    implementations: Sequence[Sequence[str]]
    note: str
    may_have_frames: bool


@dataclass(frozen=True)
class CauseShown:
    """A cause as the page has it."""

    sentence: str
    examinations: Sequence[ExaminationShown]

    @property
    def may_have_frames(self) -> bool:
        """Whether there may be a flame graph of it: the table doesn't know, the report does."""
        return any(one.may_have_frames for one in self.examinations)


def cause_row(cause: Cause, run_number: int, case_number: int) -> dict[str, Any]:
    """``cause`` as a row of the table."""
    row = {"run_number": run_number, "case_number": case_number, "sentence": fit(cause.sentence, _LONGEST_SENTENCE)}
    return row | {"content": without_frames(cause)}


def parsed(content: object) -> Cause:
    """The cause that JSON describes.

    Raises:
        pydantic.ValidationError: it describes none.
    """
    return _ADAPTER.validate_python(content)


def flames(document: bytes, case: str | None) -> list[dict[str, Any] | None]:
    """What ``assets/flame.js`` draws of a case of the report ``document``: a flame graph for each examination, None
    where it has no frames."""
    for one in json.loads(document)["comparisons"]:
        if one["case"] == case:
            try:
                cause = parsed(one.get("cause"))
            except ValidationError:
                return []
            return [flame_data(seen) for seen in cause.examinations]
    return []


def shown_causes(session: Session, case_number: int, run_ids: Sequence[str]) -> dict[str, CauseShown]:
    """The causes of a case's changes in these runs by run id, in their order: the first ten."""
    found = causes_of(session, case_number, run_ids, _MOST_SHOWN)
    return {run_id: _shown(cause) for run_id, cause in found.items()}


def _shown(cause: CauseFound) -> CauseShown:
    return CauseShown(cause.sentence, [_examined(one) for one in parsed(cause.content).examinations])


def _examined(one: Examination) -> ExaminationShown:
    rows = [[printable(cell) for cell in cells(part, one.unit)] for part in one.candidates]
    may_have_frames = one.control is not None and one.source in _WITH_CALLERS
    return ExaminationShown(
        printable(caption(one)), rows, implementation_rows(one), printable(one.note), may_have_frames
    )
