"""An alert in words: a plain text, a message in Slack's format, and variables for a command."""

import html
from collections.abc import Iterator, Sequence
from typing import Any

from opduel.reporters.alerts import Alert, Cause, Finding
from opduel.reporters.text import printable, shorten
from opduel.reporters.units import human_change, human_interval

MOST_LISTED = 5  # causes, and cases of one cause, that are listed
LONGEST_BLOCK = 3000  # characters of one text in a block: Slack's limit
LONGEST_FACT = 4096  # characters of a variable, enough for a path
_LONGEST = 160  # cells of a name, a subject or a reason
_FENCE = "```"


def headline(alert: Alert) -> str:
    """Return ``3 cases regressed, 1 fails``, without any text from a build or spec."""
    if alert.title:
        return alert.title
    words = []
    if alert.regressed:
        words.append(f"{_cases(alert.regressed)} regressed")
    if alert.broken:
        fails = "fails" if alert.broken == 1 else "fail"
        words.append(f"{alert.broken} {fails}" if words else f"{_cases(alert.broken)} {fails}")
    return ", ".join(words)


def plain_text(alert: Alert) -> str:
    """Return the alert as text for a mail or a terminal: what changed, by how much, since when, how sure it is, and
    where the report is."""
    causes = [line for cause in alert.causes[:MOST_LISTED] for line in _cause_lines(cause)]
    lines = [f"opduel: {headline(alert)}", "", *_lines(alert), *causes, *_more_causes(alert), "", *_about(alert)]
    return "\n".join(lines) + "\n"


def slack_message(alert: Alert) -> dict[str, Any]:
    """Return the body of a post to an incoming webhook.

    ``text`` has everything, for receivers that show no blocks. Texts from builds and specs are preformatted, where
    neither markup nor mentions count, with ``&``, ``<`` and ``>`` escaped (docs.slack.dev, "Formatting message text").
    """
    title = f"*opduel: {headline(alert)}*"
    causes = [_cause_lines(cause) for cause in alert.causes[:MOST_LISTED]]
    causes += [_lines(alert)] if alert.lines else []
    end = [*_more_causes(alert), *_about(alert)]
    blocks = [_section(title), *(_section(_fenced(lines)) for lines in [*causes, end])]
    body = _fenced([line for lines in [*causes, end] for line in lines], LONGEST_BLOCK - len(title) - 1)
    return {"text": f"{title}\n{body}", "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def variables(alert: Alert) -> dict[str, str]:
    """Return environment variables for a command: short, without newlines and control characters."""
    facts = {
        "ID": alert.id,
        "TITLE": headline(alert),
        "FRAMEWORK": alert.framework,
        "SPEC": alert.spec,
        "BRANCH": alert.branch,
        "CONTROL": alert.control,
        "TREATMENT": alert.treatment,
        "REGRESSED": str(alert.regressed),
        "BROKEN": str(alert.broken),
        "SINCE": "; ".join(cause.since.removeprefix("since ") for cause in alert.causes[:MOST_LISTED]),
        "REPORT": alert.places[0] if alert.places else "",
        "PAGE": alert.pages[0] if alert.pages else "",
    }
    return {f"OPDUEL_{name}": _bounded(printable(value)) for name, value in facts.items()}


def _lines(alert: Alert) -> list[str]:
    return [_short(line, 3) for line in alert.lines]


def _cases(count: int) -> str:
    return f"{count} case{'' if count == 1 else 's'}"


def _cause_lines(cause: Cause) -> list[str]:
    lines = [_short(cause.since, 2)]
    for finding in cause.findings[:MOST_LISTED]:
        lines += [f"  {_finding_line(finding)}", *([f"    cause: {_short(finding.why, 3)}"] if finding.why else [])]
    hidden = len(cause.findings) - MOST_LISTED
    lines += [f"  and {hidden} more"] if hidden > 0 else []
    return [*lines, *(f"  {_short(line, 3)}" for line in cause.code[:MOST_LISTED])]


def _more_causes(alert: Alert) -> list[str]:
    hidden = len(alert.causes) - MOST_LISTED
    return [f"and {hidden} more causes"] if hidden > 0 else []


def _finding_line(finding: Finding) -> str:
    name = _short(finding.case)
    if finding.broken:
        return f"{name}  fails: {_short(finding.broken)}"
    extras = [
        "" if finding.metric == "time" else finding.metric,
        "" if finding.again is None else f"again {human_change(finding.again)}",
        "" if finding.q_value is None else f"q {finding.q_value:.2g}",
        "injected" if finding.injected else "",
    ]
    details = ", ".join(extra for extra in extras if extra)
    return f"{name}  {human_change(finding.ratio)} {human_interval(finding.ci)}" + (f"  ({details})" if details else "")


def _about(alert: Alert) -> Iterator[str]:
    """Yield the lines on the run as a whole."""
    if alert.sure:
        yield alert.sure
    yield from (_short(doubt, 2) for doubt in alert.doubts)
    for label in ("branch", "control", "treatment"):
        if text := getattr(alert, label):
            yield f"{label:<11}{_short(text)}"
    if alert.spec:
        measured = "" if alert.title else "measured "
        yield f"spec       {_short(f'{alert.spec} ({alert.framework})')}, {measured}{_short(alert.moment or 'lately')}"
    yield from (f"report     {_short(place, 3)}" for place in alert.places)
    yield from (f"page       {_short(page, 3)}" for page in alert.pages)


def _short(text: str, times: int = 1) -> str:
    return shorten(printable(text), times * _LONGEST)


def _bounded(text: str) -> str:
    """Return at most ``LONGEST_FACT`` characters; counted by cells, combining marks would have no length."""
    half = (LONGEST_FACT - 3) // 2
    return text if len(text) <= LONGEST_FACT else f"{text[:half]}...{text[-half:]}"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _fenced(lines: Sequence[str], longest: int = LONGEST_BLOCK) -> str:
    """Return the lines as preformatted text of at most ``longest`` characters; the last lines are left out if
    necessary."""
    room = longest - 2 * len(_FENCE) - len("\n\n...\n")
    fenced: list[str] = []
    for line in lines:
        escaped = html.escape(line, quote=False).replace("`", "'")  # no mention, link or end of the fence
        room -= len(escaped) + 1
        if room < 0:
            fenced.append("...")
            break
        fenced.append(escaped)
    return "\n".join([_FENCE, *fenced, _FENCE])
