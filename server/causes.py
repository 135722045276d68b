"""Causes of changes: as rows of their table, and as the page of a case shows them."""

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
class PageExamination:
    """What one source saw, as printable text: a caption, a row of cells for each candidate, rows of primitives with
    their implementations, and a note. ``may_have_frames``: the report may have its flame graph."""

    caption: str
    rows: Sequence[Sequence[str]]
    implementations: Sequence[Sequence[str]]
    note: str
    may_have_frames: bool


@dataclass(frozen=True)
class PageCause:
    """A cause as the page shows it."""

    sentence: str
    examinations: Sequence[PageExamination]

    @property
    def may_have_frames(self) -> bool:
        """Return whether the report may have a flame graph of it; the table doesn't have the frames."""
        return any(examination.may_have_frames for examination in self.examinations)


def cause_row(cause: Cause, run_number: int, case_number: int) -> dict[str, Any]:
    """Return ``cause`` as a row of the table."""
    row = {"run_number": run_number, "case_number": case_number, "sentence": fit(cause.sentence, _LONGEST_SENTENCE)}
    return row | {"content": without_frames(cause)}


def parse_cause(content: object) -> Cause:
    """Return the cause that parsed JSON describes.

    Raises:
        pydantic.ValidationError: it does not describe a cause.
    """
    return _ADAPTER.validate_python(content)


def flames(document: bytes, case: str | None) -> list[dict[str, Any] | None]:
    """Return what ``assets/flame.js`` draws of a case of the report ``document``: a flame graph for each examination,
    None for one without frames."""
    for comparison in json.loads(document)["comparisons"]:
        if comparison["case"] == case:
            try:
                cause = parse_cause(comparison.get("cause"))
            except ValidationError:
                return []
            return [flame_data(examination) for examination in cause.examinations]
    return []


def causes_for_page(session: Session, case_number: int, run_ids: Sequence[str]) -> dict[str, PageCause]:
    """Return the causes of a case's changes by run id: of the first ten of these runs that have one."""
    causes = causes_of(session, case_number, run_ids, _MOST_SHOWN)
    return {run_id: _cause_for_page(cause) for run_id, cause in causes.items()}


def _cause_for_page(cause: CauseFound) -> PageCause:
    return PageCause(
        cause.sentence, [_examination_for_page(examination) for examination in parse_cause(cause.content).examinations]
    )


def _examination_for_page(examination: Examination) -> PageExamination:
    rows = [[printable(cell) for cell in cells(part, examination.unit)] for part in examination.candidates]
    may_have_frames = examination.control is not None and examination.source in _WITH_CALLERS
    return PageExamination(
        printable(caption(examination)),
        rows,
        implementation_rows(examination),
        printable(examination.note),
        may_have_frames,
    )
