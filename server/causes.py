"""Causes of changes: as the table keeps them, and as the page of a case shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from opduel.records import Cause, Examination
from opduel.reporters.cause_text import caption, cells, without_frames
from opduel.reporters.text import printable
from opduel.server.models import CauseFound, fit
from opduel.server.queries import causes_of

_MOST_SHOWN = 10  # on a page, the latest
_LONGEST_SENTENCE = 1000  # characters
_ADAPTER = TypeAdapter(Cause)


@dataclass(frozen=True)
class ExaminationShown:
    """What one source saw: its caption, a row of cells for each candidate, and its note; all printable."""

    caption: str
    rows: Sequence[Sequence[str]]
    note: str


@dataclass(frozen=True)
class CauseShown:
    """A cause as the page has it."""

    sentence: str
    examinations: Sequence[ExaminationShown]


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


def shown_causes(session: Session, case_number: int, run_ids: Sequence[str]) -> dict[str, CauseShown]:
    """The causes of a case's changes in these runs by run id, in their order: the first ten."""
    found = causes_of(session, case_number, run_ids, _MOST_SHOWN)
    return {run_id: _shown(cause) for run_id, cause in found.items()}


def _shown(cause: CauseFound) -> CauseShown:
    return CauseShown(cause.sentence, [_examined(one) for one in parsed(cause.content).examinations])


def _examined(one: Examination) -> ExaminationShown:
    rows = [[printable(cell) for cell in cells(part, one.unit)] for part in one.candidates]
    return ExaminationShown(printable(caption(one)), rows, printable(one.note))
