"""Reports as Markdown, read by a real Markdown parser."""

import re
from html import escape

import pytest
from markdown_it import MarkdownIt
from report_samples import comparison, failed, report, validity, with_host

from opduel.records import Failure, Report
from opduel.reporters.markdown import to_markdown

PARSER = MarkdownIt("commonmark").enable("table")


def tables(document: Report) -> list[list[list[str]]]:
    """Every table's rows as a reader sees them, the headings first."""
    tables_read: list[list[list[str]]] = []
    for token in PARSER.parse(to_markdown(document)):
        if token.type == "table_open":
            tables_read.append([])
        elif token.type == "tr_open":
            tables_read[-1].append([])
        elif token.type == "inline" and token.level == 4 and tables_read:
            text = "".join(part.content for part in token.children or [])
            tables_read[-1][-1].append(text)
    return tables_read


def test_each_verdict_has_a_table_the_worst_first() -> None:
    builds, regressed, broken, unclear, not_better, improved, not_worse, unchanged = tables(report())
    assert [row[1] for row in builds[1:]] == ["mxnet==1.8.0.post0", "mxnet==1.9.1"]
    assert [row[0] for row in regressed[1:]] == ["much slower", "slower"]
    assert regressed[2][1:3] == ["+5.3 %", "[+4.2, +6.4]"]
    assert broken[1] == ["broken", "treatment", "crash", "the worker died of SIGSEGV"]
    assert [unclear[1][0], unclear[1][-1]] == ["unclear", "two modes; needs a threshold of 3 %: --threshold 3%"]
    assert [improved[1][0], unchanged[1][0], not_better[1][0]] == ["faster", "steady", "hardly larger"]
    assert [not_worse[1][0], not_worse[1][-1]] == ["hardly faster", "faster by 0.4 to 2.2 %"]


def test_a_line_says_how_it_was_measured() -> None:
    words = "threshold 2.0 %, false discovery rate 5 %, seed 7, 12 rounds, 3 min 50 s; host AMD EPYC, 2 CPUs"
    assert words in PARSER.render(to_markdown(report()))
    assert "seed 7, 1 round, " in to_markdown(report(rounds=1))


def test_what_is_not_flagged_is_folded() -> None:
    text = to_markdown(report())
    folded = text.split("<details>")[1:]
    assert [part.split("<summary>")[1].split("</summary>")[0] for part in folded] == [
        "inconclusive (1)",
        "not smaller (1)",
        "not slower (1)",
        "unchanged (1)",
    ]
    assert "much slower" not in "".join(folded)


@pytest.mark.parametrize(
    "hostile", ["a | b", "`x` | `y`", "<script>alert(1)</script>", "[x](http://y)", "a\nb", "![](x)"]
)
def test_texts_from_outside_stay_texts(hostile: str) -> None:
    document = report(
        [comparison(hostile, "regressed", 2.0, note=hostile), failed("f", Failure("control", "error", hostile))]
    )
    _, regressed, broken = tables(document)
    expected = " ".join(hostile.split())
    assert regressed[1][0] == expected.replace("`", "'")
    assert regressed[1][-1] == expected
    assert broken[1][-1] == expected
    html = PARSER.render(to_markdown(document))
    assert "<script" not in html
    assert "<a " not in html
    assert "<img" not in html


LINKED = ["https://evil.example", "www.evil.example", "@team", "$x$", "x\n\n# y\n<img src=x>"]


@pytest.mark.parametrize("hostile", LINKED)
def test_nowhere_is_anything_but_text(hostile: str) -> None:
    slow = comparison("a", "regressed", 2.0, note=hostile, unit=hostile)
    broken = failed("f", Failure("control", hostile, hostile))
    skipped = [{"case": "s", "reason": hostile}]
    hostile_report = report([slow, broken], stop_reason=hostile, complete=False, skipped=skipped)
    text = to_markdown(with_host(hostile_report, cpu_model=hostile, kernel=hostile))
    html = PARSER.render(text)
    assert "<img" not in html
    assert "<h1>" not in html
    assert html.count(escape(" ".join(hostile.split()), quote=False)) == 8, "unit and reasons, too"
    assert not re.search(r"https?://|www\.|(?<!\\)[@$]", text)


def test_a_run_that_is_not_to_be_trusted_says_so_above_all_tables() -> None:
    text = to_markdown(report(validity=validity("others were busy"), complete=False, stop_reason="the time was up"))
    head = text[: text.index("| side")]
    assert "the host was disturbed: others were busy" in head
    assert "not complete: the time was up" in head
