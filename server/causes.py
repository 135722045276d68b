"""Causes of changes: as rows of their table, and as the page of a case shows them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from opduel.records import Cause
from opduel.reporters.cause_text import without_frames
from opduel.reporters.html.cases import flame_data
from opduel.server.models import CauseFound, Run, fit

_MOST_SHOWN = 10  # on a page, the latest
_LONGEST_SENTENCE = 1000  # characters
_WITH_CALLERS = ("Python functions", "native functions")  # sources that see a call as a tree
_ADAPTER = TypeAdapter(Cause)


def cause_row(cause: Cause, run_number: int, case_number: int) -> dict[str, Any]:
    """Return ``cause`` as a row of the table."""
    row = {"run_number": run_number, "case_number": case_number, "sentence": fit(cause.sentence, _LONGEST_SENTENCE)}
    return row | {"content": without_frames(cause)}


def parse_cause(content: object) -> Cause:
    """Return the cause that parsed JSON describes. Raises pydantic.ValidationError: it does not describe a cause."""
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


def causes_for_page(session: Session, case_number: int, run_ids: Sequence[str]) -> dict[str, Cause]:
    """Return the causes of a case's changes by run id: of the first ten of these runs that have one."""
    explained = select(Run.run_id, Run.number).join(CauseFound).where(CauseFound.case_number == case_number)
    numbers = {run.run_id: run.number for run in session.execute(explained)}
    explained_ids = [run_id for run_id in run_ids if run_id in numbers][:_MOST_SHOWN]
    rows = {run_id: session.get_one(CauseFound, (numbers[run_id], case_number)) for run_id in explained_ids}
    return {run_id: replace(parse_cause(row.content), sentence=row.sentence) for run_id, row in rows.items()}


def may_have_frames(cause: Cause) -> bool:
    """Return whether the report may have a flame graph of it; the table doesn't have the frames."""
    return any(
        examination.control is not None and examination.source in _WITH_CALLERS for examination in cause.examinations
    )
