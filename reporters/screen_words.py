"""What the screen says above and below the table: builds, host, counts, failures, incidents, injection."""

from collections.abc import Iterable

from rich.text import Text

from opduel.records import Failure, Report
from opduel.records.output import key_line
from opduel.reporters.rates import roofline_words
from opduel.reporters.run_text import build_text, disturbance_text, effort_text, host_text, incidents
from opduel.reporters.screen_table import STYLES
from opduel.reporters.summary import WORST_FIRST, injection, injection_line, open_lines, validity_line, worst_first
from opduel.reporters.text import fold, printable, shorten

_MOST_DETAILS = 20  # failures, and incidents, told one by one


def header_lines(report: Report, width: int) -> list[Text]:
    """Who was compared, on what host, by which spec."""
    run = report.run
    spec = " ".join(one for one in (run.spec, run.framework, report.configuration.platform) if one)
    lines = [
        ("spec", spec or "-"),
        ("control", build_text(report.control)),
        ("treatment", build_text(report.treatment)),
        ("host", host_text(report.host)),
        ("roofline", roofline_words(report.host.roofline)),
        ("busy host", disturbance_text(report.host)),
    ]
    return [Text(f"{label:<11}").append(shorten(printable(words), width - 11)) for label, words in lines if words]


def validity_lines(report: Report, width: int) -> list[Text]:
    """That the run can't be trusted, and why, if so."""
    line = validity_line(report)
    return list(_folded(printable(line[:1].upper() + line[1:]), width, "bold yellow")) if line else []


def footer_lines(report: Report, hidden: int, width: int) -> list[Text]:
    """Counts, what the table left out, failures, incidents, whether the run is complete, and the injection."""
    lines = [line for line in (_counts(report), Text(effort_text(report))) if line]
    if hidden:
        lines.append(Text(f"not shown: the {hidden} unchanged (--simple_screen_reporter and report.json have them)"))
    lines += _failures(report, width)
    lines += _incidents(report, width)
    if report.run.is_cut_short:
        lines += _folded(
            f"NOT COMPLETE: {printable(report.run.why_stopped)}",
            width,
            style="bold yellow",
        )
    for line in open_lines(report):
        lines += _folded(printable(line[:1].upper() + line[1:]), width, style="bold yellow")
    outcome = injection(report)
    if outcome is not None:
        lines.append(Text(injection_line(outcome)))
    return [piece for line in lines for piece in _fitting(line, width)]


def _counts(report: Report) -> Text:
    line = Text()
    for verdict in WORST_FIRST:
        count = report.count(verdict)
        line.append(", " if line else "").append(f"{count} {verdict}", style=STYLES[verdict] if count else "")
    return line


def _failures(report: Report, width: int) -> list[Text]:
    failed = [(one.case, one.failure) for one in worst_first(report.comparisons) if one.failure is not None]
    lines = [Text("failures:")] if failed else []
    for case, failure in failed[:_MOST_DETAILS]:
        lines += _failure_lines(case, failure, "", width)
    return lines + _rest(len(failed), "failures")


def _incidents(report: Report, width: int) -> list[Text]:
    told = incidents(report)
    lines = [Text("incidents:")] if told else []
    for where, failure, consequence in told[:_MOST_DETAILS]:
        lines += _failure_lines(where, failure, consequence, width)
    return lines + _rest(len(told), "incidents")


def _failure_lines(where: str, failure: Failure, consequence: str, width: int) -> list[Text]:
    """One failure: where, side and kind, reason, the line of the output that tells, and what came of it."""
    lines = [f"{shorten(printable(where), 3 * width)}: {failure.side}: {failure.kind}: {failure.reason}"]
    line = key_line(failure.output_tail)
    if line and line not in failure.reason:
        lines.append(f"  output tail: {line}")
    if consequence:
        lines.append(f"  then: {consequence}")
    return [piece for line in lines for piece in _folded(f"  {printable(line)}", width)]


def _rest(total: int, what: str) -> list[Text]:
    left = total - _MOST_DETAILS
    return [Text(f"  not shown: {left} more {what} (report.json has them)")] if left > 0 else []


def _folded(text: str, width: int, style: str = "") -> Iterable[Text]:
    """``text`` folded to ``width``, its later lines indented; the middle of what is longer than six lines left out."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    pieces = fold(shorten(text.strip(), 6 * (width - len(indent))), width - len(indent))
    first = f"{indent[2:]}{pieces[0]}"
    return [Text(line, style=style) for line in [first, *(f"{indent}{piece}" for piece in pieces[1:])]]


def _fitting(line: Text, width: int) -> Iterable[Text]:
    """``line`` itself when it fits, else folded (and then without colours)."""
    return [line] if line.cell_len <= width else _folded(line.plain, width)
