"""opduel explain: why a case of a report changed, as the run that measured it found out."""

from difflib import get_close_matches
from pathlib import Path

from opduel.commands.entry import DONE
from opduel.records import FLAGGED, Comparison, Report, UsageError
from opduel.reporters import read_report
from opduel.reporters.cause_text import cause_text, sentence_line, without_frames
from opduel.reporters.document import json_text
from opduel.reporters.stream import print_result
from opduel.support.text import counted


def explain(path: Path, case: str | None, as_json: bool) -> int:
    """Print the cause of one case, or one line for each case that has one; returns the exit code. UsageError: it is no
    report, has no such case, or no cause of it; RunError: standard output could not be written."""
    report = read_report(path)
    if case is not None:
        chosen = [_with_cause(path, _find_comparison(path, report, case))]
    else:
        chosen = [comparison for comparison in report.comparisons if comparison.cause]
        if not chosen:
            raise UsageError(f"{path}: has no causes: measure again with --explain all")
    if as_json:
        documents = [_document(comparison) for comparison in chosen]
        text = json_text(documents if case is None else documents[0])
    else:
        text = (
            "".join(f"{sentence_line(comparison)}\n" for comparison in chosen)
            if case is None
            else cause_text(chosen[0])
        )
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
    close = get_close_matches(case, comparison_by_case, 1) or list(comparison_by_case)[:1]
    raise UsageError(
        f"{path}: has no case {case!r}" + (f": did you mean {close[0]}?" if close else ": it has no cases")
    )


def _with_cause(path: Path, comparison: Comparison) -> Comparison:
    if comparison.cause is None and comparison.verdict not in FLAGGED:
        verdict = comparison.verdict_words
        raise UsageError(f"{path}: {comparison.case} is {verdict}: causes are looked for of what regressed or improved")
    if comparison.cause is None:
        raise UsageError(f"{path}: no cause of {comparison.case} was looked for: measure it again with --explain all")
    return comparison


def _document(comparison: Comparison) -> dict[str, object]:
    figures = {
        "case": comparison.case,
        "metric": comparison.metric,
        "verdict": comparison.verdict,
        "ratio": comparison.ratio,
        "ci": comparison.ci,
    }
    return figures | {"cause": without_frames(comparison.cause) if comparison.cause else None}
