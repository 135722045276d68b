"""What tests of the server's pages share: a page as it is read, reports with other builds and with hostile texts."""

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import report_samples as samples
from results_server import RunningServer, numbered

from opduel.records import Commit, HostRecord, Report

# Ends whatever it may stand in, and would then run.
PAYLOAD = (
    "</script></title>--><img src=x onerror=\"window.hacked='img'\"><script>window.hacked='script'</script>'\"`{{7*7}}"
)


class Page(HTMLParser):
    """What tests ask of a page: its links, its elements, its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if attributes.get("method") == "post":
            return
        for name in ("href", "src", "action"):
            if attributes.get(name) and attributes[name] != "data:,":  # no icon
                self.links.append(str(attributes[name]))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def get_page(server: RunningServer, path: str, **parameters: str) -> Page:
    with server.client(None) as client:
        answer = client.get(path, params=parameters or None)
    assert answer.status_code == 200, answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    return Page(answer.text)


def compared(control: str, treatment: str, number: int, ratio: float = 1.05, **changes: Any) -> Report:
    """Return a report of one case between builds that are named by what they are."""
    report = numbered(number, **changes)
    sides = [
        replace(side, requested=name, digest=name.encode().hex(), version=f"1.{ord(name[0])}")
        for side, name in ((samples.CONTROL, control), (samples.TREATMENT, treatment))
    ]
    return replace(
        report, control=sides[0], treatment=sides[1], comparisons=(samples.comparison("steady", ratio=ratio),), cases=()
    )


def hostile(number: int) -> Report:
    """Return a report with ``PAYLOAD`` in every text that the server takes one in."""
    report = numbered(
        number,
        platform=PAYLOAD,
        spec=PAYLOAD,
        user_identifier=PAYLOAD,
        run_type=PAYLOAD,
        validity=samples.validity(PAYLOAD),
    )
    commit = Commit("ab" * 20, 1_700_000_000, f"{PAYLOAD} <a@example.org>", PAYLOAD)
    builds = [
        replace(side, requested=f"javascript:alert(1) {PAYLOAD}", version=PAYLOAD, digest="", commit=side_commit)
        for side, side_commit in ((samples.CONTROL, None), (samples.TREATMENT, commit))
    ]
    crash = replace(samples.CRASH, reason=PAYLOAD, output_tail=PAYLOAD)
    comparisons = (
        samples.comparison(PAYLOAD, "regressed", 1.2, operator=PAYLOAD, note=PAYLOAD, unit=PAYLOAD),
        samples.failed(f"failed {PAYLOAD}", crash, operator=PAYLOAD, metric=PAYLOAD),
    )
    host = HostRecord(name=PAYLOAD, cpu_model=PAYLOAD, machine=PAYLOAD, kernel=PAYLOAD)
    return replace(report, control=builds[0], treatment=builds[1], comparisons=comparisons, host=host, cases=())


HOSTILE_PATHS = (
    "/",
    "/drift",
    "/hosts",
    f"/hosts/{quote(PAYLOAD)}",
    "/compare",
    "/compare?first=run-1&second=run-2",
    "/runs/run-1",
    "/cases/1",
    "/cases/2",
    "/search?q=script",
    "/search?q=%3Cscript%3Ewindow.hacked=1%3C/script%3E%22onfocus=%22hacked",
    "/?text=%22%3E%3Cscript%3Ehacked%3C/script%3E&platform=%3Cscript%3E&commit=%3Cscript%3E",
)
