"""An alert in words: a plain text, a message in Slack's format, and variables for a command."""

import html
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import jinja2

from opduel.reporters.alerts import Alert, Finding
from opduel.reporters.templates import environment
from opduel.reporters.text import printable, shorten
from opduel.reporters.units import human_change, human_changes
from opduel.support.text import counted

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
        words.append(f"{counted(alert.regressed, 'case')} regressed")
    if alert.broken:
        fails = "fails" if alert.broken == 1 else "fail"
        words.append(f"{alert.broken} {fails}" if words else f"{counted(alert.broken, 'case')} {fails}")
    return ", ".join(words)


def plain_text(alert: Alert) -> str:
    """Return the alert as text for a mail or a terminal: what changed, by how much, since when, how sure it is, and
    where the report is."""
    blocks, more, about = _blocks(alert)
    return "\n".join([f"opduel: {headline(alert)}", "", *chain(*blocks), *more, "", *about]) + "\n"


def slack_message(alert: Alert) -> dict[str, Any]:
    """Return the body of a post to an incoming webhook.

    ``text`` has everything, for receivers that show no blocks. Texts from builds and specs are preformatted, where
    neither markup nor mentions count, with ``&``, ``<`` and ``>`` escaped (docs.slack.dev, "Formatting message text").
    """
    title = f"*opduel: {headline(alert)}*"
    blocks, more, about = _blocks(alert)
    blocks.append([*more, *about])
    sections = [_section(title), *(_section(_fenced(lines)) for lines in blocks)]
    body = _fenced(list(chain(*blocks)), LONGEST_BLOCK - len(title) - 1)
    return {"text": f"{title}\n{body}", "blocks": sections, "unfurl_links": False, "unfurl_media": False}


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


def _blocks(alert: Alert) -> tuple[list[list[str]], list[str], list[str]]:
    """Return lines: those of each cause (or of an alert about the driver), of causes left out, and of the run."""
    macros: Any = _template().module
    blocks = [macros.cause(cause).splitlines() for cause in alert.causes[:MOST_LISTED]]
    blocks += [[_short(line, 3) for line in alert.lines]] if alert.lines else []
    hidden = len(alert.causes) - MOST_LISTED
    more = [f"and {counted(hidden, 'more cause')}"] if hidden > 0 else []
    return blocks, more, macros.about(alert).splitlines()


def _details(finding: Finding) -> str:
    extras = [
        "" if finding.metric == "time" else finding.metric,
        "" if finding.again is None else f"again {human_change(finding.again)}",
        "" if finding.q_value is None else f"q {finding.q_value:.2g}",
        "injected" if finding.injected else "",
    ]
    details = ", ".join(filter(None, extras))
    return f"  ({details})" if details else ""


def _effect(finding: Finding) -> str:
    return " ".join(human_changes(finding.ratio, finding.ci))


@cache
def _template() -> jinja2.Template:
    templates = environment(short=_short, details=_details, effect=_effect)
    return templates.get_template("alert.txt.jinja", globals={"most": MOST_LISTED})


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
