"""opduel explain: why a case of a report changed, as the run that measured it found out."""

from difflib import get_close_matches
from pathlib import Path

from opduel.commands.entry import DONE
from opduel.records import FLAGGED, Comparison, Report, UsageError
from opduel.records.text import counted
from opduel.reporters import read_report
from opduel.reporters.cause_text import cause_text, sentence_line, without_frames
from opduel.reporters.document import json_text
from opduel.reporters.stream import print_result


def explain(path: Path, case: str | None, as_json: bool) -> int:
    """Print the cause of one case, or one line for each case that has one; returns the exit code.

    Raises:
        UsageError: it is no report, has no such case, or no cause of it.
        RunError: standard output could not be written.
    """
    report = read_report(path)
    if case is not None:
        chosen = [_with_cause(path, _found(path, report, case))]
    else:
        chosen = [one for one in report.comparisons if one.cause]
        if not chosen:
            raise UsageError(f"{path}: has no causes: measure again with --explain all")
    if as_json:
        documents = [_document(one) for one in chosen]
        text = json_text(documents if case is None else documents[0])
    else:
        text = "".join(f"{sentence_line(one)}\n" for one in chosen) if case is None else cause_text(chosen[0])
    print_result(text, "redirect it to a file")
    return DONE


def _found(path: Path, report: Report, case: str) -> Comparison:
    """The case of that id, or the only one whose id it is a part of."""
    known = {one.case: one for one in report.comparisons}
    if case in known:
        return known[case]
    parts = [id for id in known if case in id]
    if len(parts) == 1:
        return known[parts[0]]
    if parts:
        raise UsageError(f"{path}: {case!r} is a part of {counted(len(parts), 'case')}, such as {parts[0]}: give more")
    close = get_close_matches(case, known, 1) or list(known)[:1]
    raise UsageError(
        f"{path}: has no case {case!r}" + (f": did you mean {close[0]}?" if close else ": it has no cases")
    )


def _with_cause(path: Path, one: Comparison) -> Comparison:
    if one.cause is None and one.verdict not in FLAGGED:
        raise UsageError(
            f"{path}: {one.case} is {one.verdict_words}: causes are looked for of what regressed or improved"
        )
    if one.cause is None:
        raise UsageError(f"{path}: no cause of {one.case} was looked for: measure it again with --explain all")
    return one


def _document(one: Comparison) -> dict[str, object]:
    figures = {"case": one.case, "metric": one.metric, "verdict": one.verdict, "ratio": one.ratio, "ci": one.ci}
    return figures | {"cause": without_frames(one.cause) if one.cause else None}
