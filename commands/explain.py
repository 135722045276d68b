"""opduel explain: why a case of a report changed, as the run that measured it found out."""

from pathlib import Path

from opduel.commands.entry import DONE
from opduel.records import Comparison, Report, UsageError
from opduel.reporters import read_report
from opduel.reporters.cause_text import cause_text, sentence_line, without_frames
from opduel.reporters.document import json_text
from opduel.reporters.stream import print_result
from opduel.support.text import counted, nearest


def explain(report: Path, case: str | None, json: bool) -> int:
    """Print the cause of one case, or one line for each case that has one; returns the exit code. UsageError: it is no
    report, has no such case, or no cause of it; RunError: standard output could not be written."""
    document = read_report(report)
    comparisons = document.comparisons if case is None else [_find_comparison(report, document, case)]
    explained = [comparison for comparison in comparisons if comparison.cause]
    if not explained:
        subject = "has no causes" if case is None else f"has no cause of {comparisons[0].case}"
        raise UsageError(f"{report}: {subject}: measure with --explain all, which looks at changed cases")
    if case is not None:
        text = json_text(_document(explained[0])) if json else cause_text(explained[0])
    else:
        lines = "".join(f"{sentence_line(comparison)}\n" for comparison in explained)
        text = json_text(list(map(_document, explained))) if json else lines
    print_result(text, "redirect it to a file")
    return DONE


def _find_comparison(path: Path, report: Report, case: str) -> Comparison:
    """The case of that id, or the only one whose id it is a part of."""
    comparison_by_case = {comparison.case: comparison for comparison in report.comparisons}
    if case in comparison_by_case:
        return comparison_by_case[case]
    parts = [id for id in comparison_by_case if case in id]
    if len(parts) == 1:
        return comparison_by_case[parts[0]]
    if parts:
        raise UsageError(f"{path}: {case!r} is a part of {counted(len(parts), 'case')}, such as {parts[0]}: give more")
    hint = nearest(case, list(comparison_by_case)) if comparison_by_case else "it has no cases"
    raise UsageError(f"{path}: has no case {case!r}: {hint}")


def _document(comparison: Comparison) -> dict[str, object]:
    figures = {name: getattr(comparison, name) for name in ("case", "metric", "verdict", "ratio", "ci")}
    return figures | {"cause": without_frames(comparison.cause) if comparison.cause else None}
