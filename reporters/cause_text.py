"""The cause of a case's change in words and columns: for the terminal, and for the rows of the HTML page."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from opduel.records import Candidate, Cause, Comparison, Examination
from opduel.reporters.text import printable
from opduel.reporters.units import ABSENT, human_change, human_interval, human_value

HEADINGS = ("part", "calls", "control", "treatment", "share", "95 %")


def without_frames(cause: Cause) -> dict[str, Any]:
    """The cause as JSON has it, without ``flame``: trees of thousands of frames, which only the HTML page draws."""
    plain = dataclasses.replace(
        cause, examinations=tuple(dataclasses.replace(seen, flame=()) for seen in cause.examinations)
    )
    document = dataclasses.asdict(plain)
    for seen in document["examinations"]:
        del seen["flame"]
    return document


def caption(one: Examination) -> str:
    """What one source saw as a whole: its amounts per call on both sides, and over how many process pairs."""
    if one.control is None:
        return one.source
    whole = f"{human_value(one.control, one.unit)} to {human_value(one.treatment, one.unit)} a call"
    return f"{one.source}: {whole}, {one.pairs} process pairs"


def cells(part: Candidate, unit: str) -> Iterator[str]:
    """A candidate's row under ``HEADINGS``."""
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


def cause_text(one: Comparison) -> str:
    """A case that has a cause: its change, the sentence, then a table for each source, or why that saw nothing.

    Raises:
        ValueError: it has no cause.
    """
    if one.cause is None:
        raise ValueError(f"{one.case} has no cause")
    lines = [sentence_line(one)]
    for seen in one.cause.examinations:
        lines += ["", printable(caption(seen))]
        lines += _table([HEADINGS, *(tuple(map(printable, cells(part, seen.unit))) for part in seen.candidates)])
        lines += [f"  {printable(seen.note)}"] if seen.note else []
    return "\n".join(lines) + "\n"


def sentence_line(one: Comparison) -> str:
    """``ID: regressed, +5.3 % [+4.1, +6.4]: SENTENCE``."""
    cause = one.cause.sentence if one.cause else ""
    change = f"{one.verdict}, {human_change(one.ratio)} {human_interval(one.ci)}"
    return ": ".join(printable(words) for words in (one.case, change, cause) if words)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as columns, numbers before the name, which may be long; nothing without a row below the headings."""
    if len(rows) < 2:
        return []
    turned = [(*row[1:], row[0]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*turned, strict=True)][:-1]
    return [
        "  " + "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in turned
    ]
