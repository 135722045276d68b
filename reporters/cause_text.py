"""The cause of a case's change, and its time by operator, in words and columns: for the terminal and the HTML page."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from opduel.records import Breakdown, Candidate, Cause, Comparison, Examination, OperatorTime
from opduel.reporters.changes import effect_text
from opduel.reporters.text import align, printable
from opduel.reporters.units import ABSENT, human_share, human_value
from opduel.support.text import counted

BREAKDOWN_HEADINGS = ("count", "control", "share", "treatment", "share", "difference")
_MOST_OPERATORS = 8
HEADINGS = ("part", "calls", "control", "treatment", "share", "95 % interval")


def without_frames(cause: Cause) -> dict[str, Any]:
    """Return the cause as plain data without ``flame``: trees of thousands of frames, which only the HTML page
    draws."""
    plain = dataclasses.replace(
        cause, examinations=tuple(dataclasses.replace(examination, flame=()) for examination in cause.examinations)
    )
    document = dataclasses.asdict(plain)
    for examination in document["examinations"]:
        del examination["flame"]
    return document


def caption(examination: Examination) -> str:
    """Return the total amounts per call that a source saw on both sides, and over how many process pairs."""
    if examination.control is None:
        return examination.source
    before, after = (human_value(value, examination.unit) for value in (examination.control, examination.treatment))
    return f"{examination.source}: {before} to {after} a call, {counted(examination.pairs, 'process pair')}"


def cells(part: Candidate, unit: str) -> Iterator[str]:
    """Yield the cells of a candidate's row, under ``HEADINGS``."""
    name = f"{part.was} became {part.name}" if part.was else part.name
    merged = f"with {', '.join(part.merged)}" if part.merged else ""
    before, after = part.implementations
    ran = f"{before} became {after}" if before and after and before != after else before or after
    caller = f"called by {part.caller}" if part.caller else ""
    yield "; ".join(filter(None, (name, merged, part.where, caller, ran)))
    yield " to ".join(ABSENT if calls is None else f"{calls:.6g}" for calls in part.calls)
    yield human_value(part.control, unit)
    yield human_value(part.treatment, unit)
    yield ABSENT if part.share is None else f"{part.share:.0%}"
    yield f"{part.ci[0]:.0%} to {part.ci[1]:.0%}" if part.ci else ABSENT


def cause_text(comparison: Comparison) -> str:
    """Return the cause of a case: its change, the sentence, then a table for each source, or why that saw nothing.
    Raises ValueError: the case has no cause."""
    if comparison.cause is None:
        raise ValueError(f"{comparison.case} has no cause")
    lines = [sentence_line(comparison)]
    for examination in comparison.cause.examinations:
        lines += ["", printable(caption(examination))]
        lines += _table(
            [HEADINGS, *(tuple(map(printable, cells(part, examination.unit))) for part in examination.candidates)]
        )
        lines += [f"  {printable(examination.note)}"] if examination.note else []
    return "\n".join(lines) + "\n"


def sentence_line(comparison: Comparison) -> str:
    """Return ``ID: regressed, +5.3 % [+4.1, +6.4]: SENTENCE``."""
    cause = comparison.cause.sentence if comparison.cause else ""
    change = f"{comparison.verdict_words}, {effect_text(comparison, comparison.unit)}"
    return ": ".join(printable(words) for words in (comparison.case, change, cause) if words)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as columns, numbers before the name, which may be long; nothing if there are only headings."""
    numbers = align([row[1:] for row in rows], left_columns=0)
    lines = [f"  {line}  {row[0]}" for line, row in zip(numbers, rows, strict=True)]
    return lines if len(rows) > 1 else []


def breakdown_rows(breakdown: Breakdown) -> list[tuple[str, tuple[str, ...]]]:
    """Return operators and their cells (``BREAKDOWN_HEADINGS``), the largest difference of time first; the last row
    sums up the others."""
    control = {row.name: row for row in breakdown.control}
    treatment = {row.name: row for row in breakdown.treatment}
    names = sorted(
        control.keys() | treatment.keys(), key=lambda name: (-abs(_ns(treatment, name) - _ns(control, name)), name)
    )
    rows = [(name, _cells(control.get(name), treatment.get(name), breakdown)) for name in names[:_MOST_OPERATORS]]
    if other_names := names[_MOST_OPERATORS:]:
        sums = [_sum([table[name] for name in other_names if name in table]) for table in (control, treatment)]
        rows.append((counted(len(other_names), "other"), _cells(sums[0], sums[1], breakdown)))
    return rows


def _ns(table: dict[str, OperatorTime], name: str) -> float:
    return table[name].ns if name in table else 0.0


def _sum(rows: Sequence[OperatorTime]) -> OperatorTime:
    return OperatorTime("", sum(row.count for row in rows), sum(row.ns for row in rows), sum(row.share for row in rows))


def _cells(control: OperatorTime | None, treatment: OperatorTime | None, breakdown: Breakdown) -> tuple[str, ...]:
    """Count (of both sides where they differ), time and share of either side, and the difference."""
    counts = list(dict.fromkeys(f"{row.count:g}" for row in (control, treatment) if row is not None))
    cells = ["/".join(counts)]
    for row in (control, treatment):
        cells += [human_value(row.ns if row else None, "ns"), human_share(row.share if row else None)]
    if not (breakdown.control and breakdown.treatment):
        return (*cells, "-")
    difference = (treatment.ns if treatment else 0.0) - (control.ns if control else 0.0)
    return (*cells, ("+" if difference > 0 else "-" if difference < 0 else "") + human_value(abs(difference), "ns"))
