"""Whatever an untrusted report's texts hold, every format can be read back, and nothing is injected."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import interchange_samples
import pyperf
import report_samples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from test_interchange_benchstat import parse

from opduel.records import Failure, Report
from opduel.reporters.formats import FORMATS, write_format
from opduel.reporters.interchange.table import text_cell
from opduel.reporters.text import printable

MARKDOWN = MarkdownIt("commonmark").enable("table")
TEXTS = st.text(st.characters()) | st.text("|`\\<>&\"'=+-@,;\r\n\t\0\x1b\ud800￾ %8/:", max_size=12)


def hostile(case: str, words: str) -> Report:
    """A report in which every untrusted text is one of these."""
    cases = (
        interchange_samples.measured(case, "regressed", 1.053, operator=words, note=words),
        interchange_samples.measured(f"{case} again", "inconclusive", 1.0, operator=words, note=words),
        report_samples.failed(f"{case} failed", Failure("treatment", "crash", words, words)),
    )
    return report_samples.report(cases, spec=words, id=words, platform=words, started=words)


@settings(max_examples=30)
@given(TEXTS, TEXTS)
@example("a\\|b`c`", "\\|")
@example("=1+1", "]]></failure><testcase name='x'>")
@example("a\nBenchmarkFake 1 1 ns/op", "x\nside: treatment")
@example("\ud800￾\x00", "\x85 ")
def test_every_format_can_be_read_back(case: str, words: str) -> None:
    report = hostile(case, words)
    texts = {
        name: write_format(report, name, "control" if format.sides == "one" else None, "").text
        for name, format in FORMATS.items()
    }
    for text in texts.values():
        text.encode("utf-8")
    suite = pyperf.BenchmarkSuite.loads(texts["pyperf"])
    assert [len(benchmark.get_values()) for benchmark in suite] == [15, 15]
    parsed = parse(texts["benchstat"])
    assert [len(values) for values in parsed.values.values()] == [15] * 4
    assert set(parsed.configuration) <= {"spec", "framework", "platform", "threads", "cpu", "side"}
    assert all(line.startswith("# ") for line in parsed.ignored)
    assert len(json.loads(texts["bmf"])) == len(json.loads(texts["github-action-benchmark"])) == 2
    tests = list(ElementTree.fromstring(texts["junit"].encode()).iter("testcase"))
    assert [[child.tag for child in test] for test in tests] == [
        ["failure", "system-out"],
        ["skipped", "system-out"],
        ["error", "system-out"],
    ]
    assert tests[0].get("name") == (printable(case).strip() or "-")
    lines = list(csv.reader(io.StringIO(texts["csv"], newline=""), strict=True))
    assert [dict(zip(lines[0], line, strict=True))["case"] for line in lines[1:]] == [
        text_cell(comparison.case) for comparison in report.comparisons
    ]
    assert {len(line) for line in csv.reader(io.StringIO(texts["csv-samples"], newline=""), strict=True)} == {15}
    rows = [token for token in MARKDOWN.parse(texts["md"]) if token.type in ("tr_open", "html_block", "html_inline")]
    assert [token.type for token in rows].count("tr_open") == 3 + 2 * 3
    assert {token.content for token in rows if token.type != "tr_open"} <= {
        "<details>\n<summary>inconclusive (1)</summary>\n",
        "</details>\n",
    }


@given(TEXTS)
def test_a_cell_gives_its_text_back_and_is_no_formula(text: str) -> None:
    cell = text_cell(text)
    assert not re.match(r"\s*[=+\-@＝＋－＠]", cell)
    plain = cell.removeprefix("'")
    read = re.sub(
        r"\\(?:([\\tnr])|x(..)|u(....)|U(.{8}))",
        lambda m: {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}.get(m[1]) or chr(int(m[2] or m[3] or m[4], 16)),
        plain,
    )
    assert read == text
