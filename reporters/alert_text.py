"""An alarm in words: a plain text, a message that Slack and its like understand, and variables for a command."""

import html
from collections.abc import Iterator, Sequence
from typing import Any

from opduel.reporters.alerts import Alert, Cause, Finding
from opduel.reporters.text import printable, shorten
from opduel.reporters.units import human_change, human_interval

MOST_LISTED = 5  # cases of one cause, and causes, that are listed one by one
LONGEST_BLOCK = 3000  # characters of one text in a block: Slack's limit
LONGEST_FACT = 4096  # characters of a variable: a path fits, and the system takes it
_LONGEST = 160  # cells of a name, a subject or a reason
_FENCE = "```"


def headline(alert: Alert) -> str:
    """``3 cases regressed, 1 fails``, with no word from outside."""
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
    """The whole of it, for a mail or a terminal: what, how much, since when, how sure, where to read on."""
    causes = [line for cause in alert.causes[:MOST_LISTED] for line in _cause_lines(cause)]
    lines = [f"opduel: {headline(alert)}", "", *_lines(alert), *causes, *_more_causes(alert), "", *_about(alert)]
    return "\n".join(lines) + "\n"


def slack_message(alert: Alert) -> dict[str, Any]:
    """The body of a post to an incoming webhook.

    ``text`` holds all, for those that show no blocks. What comes from outside stands in preformatted text only, where
    neither markup nor mentions count, with ``&``, ``<`` and ``>`` escaped (docs.slack.dev, "Formatting message text").
    """
    title = f"*opduel: {headline(alert)}*"
    causes = [_cause_lines(cause) for cause in alert.causes[:MOST_LISTED]]
    causes += [_lines(alert)] if alert.lines else []
    rest = [*_more_causes(alert), *_about(alert)]
    blocks = [_section(title), *(_section(_fenced(lines)) for lines in [*causes, rest])]
    whole = _fenced([line for lines in [*causes, rest] for line in lines], LONGEST_BLOCK - len(title) - 1)
    return {"text": f"{title}\n{whole}", "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def variables(alert: Alert) -> dict[str, str]:
    """The facts for a command's environment: no newline and no control character in any of them, and none too long."""
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
    for one in cause.findings[:MOST_LISTED]:
        lines += [f"  {_finding_line(one)}", *([f"    cause: {_short(one.why, 3)}"] if one.why else [])]
    left = len(cause.findings) - MOST_LISTED
    lines += [f"  and {left} more"] if left > 0 else []
    return [*lines, *(f"  {_short(line, 3)}" for line in cause.code[:MOST_LISTED])]


def _more_causes(alert: Alert) -> list[str]:
    left = len(alert.causes) - MOST_LISTED
    return [f"and {left} more causes"] if left > 0 else []


def _finding_line(one: Finding) -> str:
    name = _short(one.case)
    if one.broken:
        return f"{name}  fails: {_short(one.broken)}"
    extras = [
        "" if one.metric == "time" else one.metric,
        "" if one.again is None else f"again {human_change(one.again)}",
        "" if one.q_value is None else f"q {one.q_value:.2g}",
        "injected" if one.injected else "",
    ]
    said = ", ".join(extra for extra in extras if extra)
    return f"{name}  {human_change(one.ratio)} {human_interval(one.ci)}" + (f"  ({said})" if said else "")


def _about(alert: Alert) -> Iterator[str]:
    """All but the causes."""
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
    """At most ``LONGEST_FACT`` characters; by cells, marks that combine would have no length."""
    half = (LONGEST_FACT - 3) // 2
    return text if len(text) <= LONGEST_FACT else f"{text[:half]}...{text[-half:]}"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _fenced(lines: Sequence[str], longest: int = LONGEST_BLOCK) -> str:
    """The lines as preformatted text of at most ``longest`` characters; whole lines are left out at the end."""
    room = longest - 2 * len(_FENCE) - len("\n\n...\n")
    kept: list[str] = []
    for line in lines:
        escaped = html.escape(line, quote=False).replace("`", "'")  # no mention, link or end of the fence
        room -= len(escaped) + 1
        if room < 0:
            kept.append("...")
            break
        kept.append(escaped)
    return "\n".join([_FENCE, *kept, _FENCE])
