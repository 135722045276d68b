"""The two screen reporters and their stream: colours, characters that it lacks, tab-separated lines, no reader."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples

from opduel.records import Failure
from opduel.reporters.screen import ScreenReporter, render, wants_colour
from opduel.reporters.simple_screen import COLUMNS, SimpleScreenReporter, tab_separated

ROOT = Path(__file__).resolve().parents[2]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_no_colours_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    stream = io.StringIO()
    ScreenReporter(stream).report(samples.report())
    assert stream.getvalue() == render(samples.report())


def test_colours_on_a_terminal_and_when_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stream, colour in ((Terminal(), None), (io.StringIO(), True)):
        ScreenReporter(stream, colour=colour).report(samples.report())
        assert "\x1b[1;31mregressed (2)" in stream.getvalue()
        assert "\x1b[32mimproved (1)" in stream.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    ScreenReporter(stream).report(samples.report())
    assert stream.getvalue() == render(samples.report())
    assert not wants_colour(stream, {"TERM": "dumb"})
    assert wants_colour(stream, {"TERM": "xterm", "NO_COLOR": ""})


def test_texts_from_a_worker_cannot_control_the_terminal() -> None:
    nasty = "\x1b]0;title\x07\x1b[2J\r[bold]x[/bold] :smile:\udc80"
    case = samples.failed(nasty, Failure("both", "error", nasty, nasty))
    for text in (render(samples.report([case])), "\n".join(tab_separated(samples.report([case])))):
        assert not any(char in text for char in "\x1b\x07\r\udc80")
        assert "\\x1b[2J" in text
        assert "[bold]x[/bold] :smile:" in text.replace("\n  ", " ").replace("  ", " ")


def test_a_stream_that_lacks_characters_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    ScreenReporter(stream).report(samples.report([samples.comparison("größe")]))
    assert b"gr\\xf6\\xdfe" in raw.getvalue()


def test_tab_separated_lines_have_full_precision() -> None:
    lines = list(tab_separated(samples.report([samples.comparison("a", "regressed", 1.0530000000000002)])))
    assert lines[0] == "#" + "\t".join(COLUMNS)
    row = dict(zip(COLUMNS, lines[1].split("\t"), strict=True))
    assert row["verdict"] == "regressed"
    assert float(row["ratio"]) == 1.0530000000000002
    assert float(row["ci_high"]) == 1.0530000000000002 * 1.01
    assert (row["unit"], row["rounds"], row["injected"], row["failure_kind"]) == ("ns", "12", "false", "")
    assert len(lines) == 2


def test_tab_separated_lines_keep_the_reports_order_and_lose_none() -> None:
    cases = [samples.comparison(f"case{number:03d}") for number in range(100)]
    lines = list(tab_separated(samples.report([*samples.EVERY_VERDICT, *cases])))
    expected = [comparison.case for comparison in (*samples.EVERY_VERDICT, *cases)]
    assert [line.split("\t")[1] for line in lines[1:]] == expected


def test_texts_cannot_break_a_tab_separated_line() -> None:
    failure = Failure("control", "error", "tab\there\nnew\rback\\slash")
    nan = samples.comparison("b\tb", "inconclusive", float("nan"), ci=None, p_value=None)
    *lines, comment = tab_separated(samples.report([samples.failed("a\nb", failure), nan]))
    assert [len(line.split("\t")) for line in lines] == [len(COLUMNS)] * 3
    assert comment.startswith("# nothing was compared")
    first, second = (dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines[1:])
    assert first["case"] == "a\\nb"
    assert first["failure_reason"] == "tab\\there\\nnew\\rback\\\\slash"
    assert (second["case"], second["ratio"], second["ci_low"], second["p_value"]) == ("b\\tb", "", "", "")


def test_an_incomplete_run_says_so_in_a_comment() -> None:
    assert list(tab_separated(samples.report([], complete=False)))[1].startswith("# not complete")


@pytest.mark.parametrize("kind", [ScreenReporter, SimpleScreenReporter])
def test_a_reader_that_goes_away_is_no_error(kind: type) -> None:
    program = (
        "import sys, time\n"
        f"sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\n"
        "import report_samples as samples\n"
        f"from {kind.__module__} import {kind.__name__}\n"
        "sys.stdin.read()\n"
        f"{kind.__name__}().report(samples.report([samples.failed(f'case{{n}}') for n in range(5000)]))\n"
        "print('more')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(b"go", timeout=60)
    assert (process.returncode, errors) == (0, b"")


def test_a_brief_report_has_the_verdicts_and_why_to_doubt_them() -> None:
    unmeasured = replace(samples.comparison("b", "unchanged", None), ci=None, note="not measured")
    cases = [samples.comparison("a", "regressed", 1.1), unmeasured, samples.failed("c")]
    lines = render(samples.report(cases), is_brief=True).splitlines()
    verdicts = " ".join(line.strip() for line in lines)
    assert verdicts.startswith("mxnet==1.8.0.post0..mxnet==1.9.1: a regressed, +10.0 % [")
    assert "; b unchanged, not measured" in verdicts
    assert "; c failed, " in verdicts
    assert len(lines) <= 3
    validity = samples.validity("other processes kept 0.52 of opduel's processors busy")
    report = samples.report([*cases, samples.comparison("d", "inconclusive")], validity=validity)
    assert "other processes kept 0.52" in render(report, is_brief=True)
    report = samples.report([samples.comparison("d", "inconclusive")], complete=False, stop_reason="out of time")
    assert "NOT COMPLETE: out of time" in render(report, is_brief=True)
    many = [samples.comparison(f"case {number}", "unchanged") for number in range(50)]
    assert " ".join(render(samples.report(many), is_brief=True).split()).endswith("; 45 more")
