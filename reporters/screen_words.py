"""What the screen says above and below the table: builds, host, counts, failures, incidents, injection."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from rich.text import Text

from records import SAMPLED, Build, Failure, Report
from reporters.rates import roofline_words
from reporters.screen_table import STYLES
from reporters.summary import WORST_FIRST, distrust_line, injection, injection_line, worst_first
from reporters.text import fold, last_line, printable, shorten
from reporters.units import human_duration, human_share, human_size

_MOST_DETAILS = 20  # failures, and incidents, told one by one
_BUSY = 0.05  # share of the CPUs that others took, from which on the screen warns


def header_lines(report: Report, width: int) -> list[Text]:
    """Who was compared, on what host, by which spec."""
    run = report.run
    spec = " ".join(str(run[key]) for key in ("spec", "framework", "platform") if run.get(key))
    lines = [
        ("spec", spec or "-"),
        ("control", _build(report.control)),
        ("treatment", _build(report.treatment)),
        ("host", _host(report.host)),
        ("roofline", roofline_words(report.host.get("roofline"))),
        ("busy host", _disturbance(report.host)),
    ]
    return [Text(f"{label:<11}").append(shorten(printable(words), width - 11)) for label, words in lines if words]


def distrust_lines(report: Report, width: int) -> list[Text]:
    """That the run can't be trusted, and why, if so."""
    line = distrust_line(report)
    return list(_folded(printable(line[:1].upper() + line[1:]), width, "bold yellow")) if line else []


def footer_lines(report: Report, hidden: int, width: int) -> list[Text]:
    """Counts, what the table left out, failures, incidents, whether the run is complete, and the injection."""
    lines = [line for line in (_counts(report), Text(_effort(report))) if line]
    if hidden:
        lines.append(Text(f"not shown: the {hidden} unchanged (--simple_screen_reporter and report.json have them)"))
    lines += _failures(report, width)
    lines += _incidents(report, width)
    if report.run.get("complete") is False:
        lines += _folded(
            f"NOT COMPLETE: {printable(str(report.run.get('stopped') or 'stopped early'))}", width, style="bold yellow"
        )
    outcome = injection(report)
    if outcome is not None:
        lines.append(Text(injection_line(outcome)))
    return [piece for line in lines for piece in _fitting(line, width)]


def _build(build: Build) -> str:
    words = f"{build.requested} ({build.framework} {build.version}, Python {build.python})"
    return f"{words} digest {build.digest[:12]}" if build.digest else words


def _host(host: Mapping[str, Any]) -> str:
    cpus, memory = host.get("logical_cpus"), host.get("memory_total")
    words = [
        str(host.get("cpu_model") or "unknown CPU"),
        f"{cpus} CPUs" if cpus else "",
        human_size(memory) if _is_number(memory) else "",
        str(host.get("kernel") or ""),
        "virtual machine" if host.get("hypervisor") else "",
    ]
    return ", ".join(word for word in words if word)


def _disturbance(host: Mapping[str, Any]) -> str:
    """A warning when, on average over the run, others took a noticeable share of the CPUs; else nothing."""
    words = []
    for key, who in (("other_cpu", "other processes"), ("steal", "the hypervisor")):
        during = host.get("during")
        measured = during.get(key) if isinstance(during, Mapping) else None
        share = measured.get("mean") if isinstance(measured, Mapping) else None
        if _is_number(share) and share >= _BUSY:
            words.append(f"{who} took {human_share(share)} of the CPUs")
    return ", ".join(words)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _counts(report: Report) -> Text:
    line = Text()
    for verdict in WORST_FIRST:
        count = report.count(verdict)
        line.append(", " if line else "").append(f"{count} {verdict}", style=STYLES[verdict] if count else "")
    return line


def _effort(report: Report) -> str:
    run = report.run
    thresholds = sorted({one.threshold for one in report.comparisons if one.metric in SAMPLED})
    rounds, seconds = run.get("rounds"), run.get("wall_s")
    words = [
        f"threshold {' to '.join(human_share(one) for one in thresholds[:1] + thresholds[1:][-1:])}"
        if thresholds
        else "",
        f"alpha {run['alpha']:g}" if _is_number(run.get("alpha")) else "",
        f"seed {run['seed']}" if run.get("seed") is not None else "",
        f"{rounds} rounds" if _is_number(rounds) else "",
        human_duration(seconds) if _is_number(seconds) else "",
    ]
    return ", ".join(word for word in words if word)


def _failures(report: Report, width: int) -> list[Text]:
    failed = [(one.case, one.failure) for one in worst_first(report.comparisons) if one.failure is not None]
    lines = [Text("failures:")] if failed else []
    for case, failure in failed[:_MOST_DETAILS]:
        lines += _told(case, failure, "", width)
    return lines + _rest(len(failed), "failures")


def _incidents(report: Report, width: int) -> list[Text]:
    incidents = [one for one in report.run.get("incidents") or [] if isinstance(one, Mapping)]
    lines = [Text("incidents (workers lost):")] if incidents else []
    for one in incidents[:_MOST_DETAILS]:
        known = one.get("failure") or {}
        failure = Failure(
            side=known.get("side", "both"),
            kind=str(known.get("kind", "unknown")),
            reason=str(known.get("reason", "")),
            last_words=str(known.get("last_words") or ""),
        )
        where = f"round {one.get('round')}, {one.get('case_id') or 'starting up'}"
        lines += _told(where, failure, str(one.get("consequence") or ""), width)
    return lines + _rest(len(incidents), "incidents")


def _told(where: str, failure: Failure, consequence: str, width: int) -> list[Text]:
    """One failure: where, side and kind, reason, the last line of the last words, and what came of it."""
    lines = [f"{shorten(printable(where), 3 * width)}: {failure.side}: {failure.kind}: {failure.reason}"]
    words = last_line(failure.last_words)
    if words and words != failure.reason.strip():
        lines.append(f"  last words: {words}")
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
