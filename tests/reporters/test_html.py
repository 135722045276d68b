"""The HTML report as a document: what is in it, that it is safe and asks for nothing, and where it is written."""

import json
import os
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from hostile import PAYLOAD, hostile
from made_report import made_report

from opduel.records import (
    Breakdown,
    Build,
    Candidate,
    Cause,
    Commit,
    Examination,
    Frame,
    OperatorTime,
    Report,
    RunError,
    UsageError,
    Verification,
    Work,
)
from opduel.records.host_record import HostRecord
from opduel.records.run_record import LeftOutRecord, RunRecord, SkippedRecord
from opduel.reporters.export import HtmlReporter
from opduel.reporters.html import to_html
from opduel.reporters.html.cases import implementation_rows
from opduel.reporters.summary import WORST_FIRST
from opduel.reporters.text import printable


class Page(HTMLParser):
    """A page taken apart: elements with their attributes, texts, and what its scripts hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.scripts: list[str] = []
        self._within = ""
        self._in_cell = False
        self.feed(text)
        self.close()
        self.rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag
        if tag == "script":
            self.scripts.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts[-1] += data
        elif self._within != "style":
            self.texts.append(data)
            if self._in_cell:
                self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._within = ""
        elif tag in ("td", "th"):
            self._in_cell = False

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script reads."""
        document: dict[str, Any] = json.loads(self.scripts[1])
        return document

    def row(self, text: str) -> list[str]:
        """The row that has a cell of this text."""
        return next(row for row in self.rows if text in row)

    def facts(self, case: str) -> dict[str, str]:
        """What is reported a case that is opened."""
        (case_entry,) = (entry for entry in self.data["cases"] if entry["id"] == case)
        return {label: fact for label, fact in zip(self.data["labels"], case_entry["facts"], strict=True) if fact}


FLAME = (Frame("a call", 0, 1e3, 2e3), Frame("prod <i>", 1, 0.0, 900.0))
PROD = Candidate("prod", 0.0, 900.0, 0.9, (0.85, 0.95), (None, 2.0), "a.py:3", "product", ("inlined",))


def rich_report() -> Report:
    """A report in which everything there is is known."""
    slow = samples.comparison(
        "slower/backward",
        "regressed",
        1.053,
        ci=(1.04, 1.07),
        samples=tuple(
            replace(samples.EVERY_VERDICT[2].samples[0], case_id="slower/backward", round=number) for number in range(3)
        ),
        work=Work(2e6, 1e5, "float32"),
        held_back="improved",
        note="slower with the same instructions",
        breakdown=Breakdown((OperatorTime("Conv", 2, 1e6, 0.9),), (OperatorTime("Conv", 2, 2e6, 1.0),), "a note"),
        cause=Cause(
            "prod is called twice",
            (Examination("Python functions", "ns", 5, 1e3, 2e3, (9e2, 11e2), (PROD,), 0.9, "seen", FLAME),),
        ),
        verification=Verification("regressed", "regressed", 1.06, (1.05, 1.07), rounds=4, failure=samples.CRASH),
    )
    sample = samples.report(
        (*samples.EVERY_VERDICT, slow),
        validity=samples.validity("the host was busy"),
        incidents=[samples.INCIDENT],
        inject=0.05,
        complete=False,
        stop_reason="the time budget was spent",
    )
    commit = Commit("c0" * 20, 1_700_000_000, "Ada <ada@example.org>", "Make <b>tensors</b> lazy")
    treatment = replace(sample.treatment, commit=commit, packages={"numpy": "1.23.5"}, strategy="overlay")
    control = replace(sample.control, packages={"numpy": "1.26.4"})
    noise = {"during": {"seconds": 1.0, "other_cpu": {"mean": 0.5, "min": 0.1, "max": 0.75}, "oom_kills": 0}}
    roofline = {"gflops": {"float32": 50.0}, "gbytes": 10.0}
    return replace(
        sample,
        treatment=treatment,
        control=control,
        host=HostRecord.of({**asdict(sample.host), **noise, "roofline": roofline}),
    )


def test_the_table_has_every_case_what_changed_first() -> None:
    page = Page(to_html(rich_report()))
    named = [row for row in page.rows if row[0].split(" ")[0] in (*WORST_FIRST, "not") and len(row) == 11]
    assert [row[:5] for row in named] == [
        ["regressed", "much slower", "x12.3", "[x12.2, x12.5]", ""],
        ["regressed", "slower", "+5.3 %", "[+4.2, +6.4]", ""],
        ["regressed", "slower/backward", "+5.3 %", "[+4.0, +7.0]", "slower with the same instructions"],
        ["failed", "broken", "-", "-", "treatment: crash: the worker died of SIGSEGV"],
        ["improved", "faster", "-50.0 %", "[-50.5, -49.5]", ""],
        ["inconclusive", "unclear", "+1.0 %", "[+0.0, +2.0]", "two modes; needs a threshold of 3 %: --threshold 3%"],
        ["not smaller", "hardly larger", "+1.5 %", "[-0.2, +3.2]", ""],
        ["not slower", "hardly faster", "-1.3 %", "[-2.2, -0.4]", "faster by 0.4 to 2.2 %"],
        ["unchanged", "steady", "+0.1 %", "[-0.9, +1.1]", ""],
    ]
    assert all(row[1].startswith(entry["id"]) for entry, row in zip(page.data["cases"], named, strict=True))
    assert page.row("much slower")[5:] == ["123 us", "1.52 ms", "12", "1.2 %", "0.5", "2.0 %"]


def test_it_is_sorted_by_the_numbers_in_full() -> None:
    report = rich_report()
    text = to_html(report)
    for comparison in report.comparisons:
        for number in (comparison.ratio, comparison.control, comparison.treatment, comparison.q_value, comparison.mde):
            assert number is None or f'data-value="{number!r}"' in text


def test_who_was_compared_and_what_it_came_to() -> None:
    text = " ".join(Page(to_html(rich_report())).texts)
    for words in (
        "mxnet==1.9.1 against mxnet==1.8.0.post0",
        "Make <b>tensors</b> lazy",
        "2023-11-14T22:13:20+00:00, Ada",
        "The host was disturbed: the host was busy; ",
        "stand nevertheless; 1 verdict was held back: give more rounds or time, or measure again when the",
        "Not complete: the time budget was spent",
        "injected +5 %: found 0 of 0, missed 0; false alarms 4 of 8; failed 1",
        "threshold 2.0 %, false discovery rate 5 %, seed 7, 12 rounds, 3 min 50 s",
        "the worker died of SIGSEGV",
        "Segmentation fault: 11",
        "round 3, nd.topk",
        "a new worker took its place",
        "harness.py -b specs/conv.json",
        "0.5 (0.1 to 0.75)",
        "50 GFLOP/s in float32, 10 GB/s",
    ):
        assert words in text, words
    assert "ada@example.org" not in text
    page = Page(to_html(rich_report()))
    assert page.row("numpy") == ["numpy", "1.26.4", "1.23.5", "differs"]
    assert ["steady", "+0.2 %", "[-1.0, +1.0]", "2.0 %", "5", "no difference found"] in page.rows


def test_a_search_names_the_culprit_at_the_head() -> None:
    page = Page(to_html(rich_report(), ["first bad: c0c0c0 Ada: Make <b>tensors</b> lazy", "  slower: +5.3 %"]))
    head = page.texts[: page.texts.index("Cases")]
    assert "first bad: c0c0c0 Ada: Make <b>tensors</b> lazy\n  slower: +5.3 %" in head
    assert not any(text.startswith("next: ") for text in head)


def test_cases_without_a_result_are_named_with_the_reason() -> None:
    skipped = (SkippedRecord(case="needs.gpu", reason="no GPU"),)
    left_out = LeftOutRecord(cases=("far.away",), total=2)
    page = Page(to_html(samples.report(skipped=skipped, left_out=left_out)))
    assert page.row("needs.gpu") == ["needs.gpu", "skipped by both builds: no GPU"]
    assert page.row("far.away") == ["far.away", "the change can't reach it"]


def test_numbers_are_rounded_and_the_machine_s_paths_are_not_shown() -> None:
    report = samples.report(
        wall_s=60.19160152800009, environment={"PATH": "/home/ada/bin:/usr/bin", "OMP_NUM_THREADS": "1"}
    )
    place = Path("/home/ada/.cache/opduel")
    control = replace(report.control, interpreter=str(place / "python"), directory=str(place), duration_s=6.9690123)
    host = replace(report.host, memory_available=23091417088)
    text = to_html(replace(report, control=control, host=host))
    assert "/home/ada" not in " ".join(Page(text).texts)
    for shown in ("<dd>1 min</dd>", "<td>6.97 s</td>", "<dd>21.5 GiB</dd>", "<dt>OMP_NUM_THREADS</dt>"):
        assert shown in text, shown


def test_all_that_is_known_of_a_case() -> None:
    report = rich_report()
    page = Page(to_html(report))
    facts = page.facts("slower/backward")
    assert facts == {
        "operator": "nd.Convolution",
        "direction": "forward",
        "metric": "time",
        "dtype": "float32",
        "context": "cpu",
        "mode": "imperative",
        "inputs": '{"data": [8, 3], "kernel": null}',
        "change": "+5.3 %",
        "interval, at least 95 % sure": "[+4.0, +7.0]",
        "control": "123 us",
        "treatment": "130 us",
        "p value": "0.25",
        "q value": "0.5",
        "threshold": "2.0 %",
        "minimum detectable effect": "1.2 %",
        "rounds": "12",
        "decided on": "screening",
        "held back": "would be improved in a valid run",
        "second measurement": "regressed: +6.0 % [+5.0, +7.0] in 4 rounds; the first said regressed",
        "work of a call": "2e+06 floating-point operations, 97.7 KiB (float32)",
        "rates": facts["rates"],
        "note": "slower with the same instructions",
    }
    assert facts["rates"].startswith("control 16.2 GFLOP/s")
    effort = "1 fork of 24 quads in the last round; 12.5 s in all; noise: quad 4.4 %, fork 0.66 %, pair 0.13 %"
    assert page.facts("hardly faster")["effort"] == effort
    entry = page.data["cases"][2]
    assert (entry["divisor"], entry["unit"]) == (1e3, "us")
    assert entry["samples"] == [[number, "screening", 1, 1e5, 1.05e5, 0.049, 1] for number in range(3)]
    assert entry["breakdown"]["rows"] == [["Conv", "2", "1.00 ms", "90.0 %", "2.00 ms", "100.0 %", "+1.00 ms"]]
    assert entry["breakdown"]["note"] == "a note"
    (examination,) = entry["causes"]
    assert examination["caption"] == "Python functions: 1.00 us to 2.00 us a call, 5 process pairs"
    assert examination["rows"] == [
        ["product became prod; with inlined; a.py:3", "- to 2", "0.00 ns", "900 ns", "90%", "85% to 95%"]
    ]
    assert examination["note"] == "seen"
    frames = "0 1000 2000 a call\n1 0 900 prod <i>"
    assert examination["flame"] == {"caption": "Python functions", "divisor": 1e3, "unit": "us", "frames": frames}
    assert examination["implementations"] == []
    assert entry["failures"] == [
        {"what": "treatment: crash: the worker died of SIGSEGV", "words": "some output\nSegmentation fault: 11"}
    ]


def test_a_function_has_no_direction_context_and_mode() -> None:
    report = rich_report()
    name = report.comparisons[0].case
    comparison = replace(report.comparisons[0], operator="numpy.sort", direction="")
    case = replace(report.cases[0], id=name, operator="numpy.sort", direction="", context="", mode="", dtype="float64")
    facts = Page(to_html(replace(report, comparisons=(comparison,), cases=(case,)))).facts(name)
    assert (facts["function"], facts["dtype"]) == ("numpy.sort", "float64")
    assert not {"operator", "direction", "context", "mode"} & facts.keys()


def test_primitives_before_and_after_are_a_table_where_candidates_name_them() -> None:
    faster = Candidate("convolution 3x3", 1e6, 2e6, implementations=("jit:avx512_core", "ref:any"))
    new = Candidate("reorder", 0.0, 1e3, implementations=("", "jit:uni"))
    examination = Examination("primitives", "ns", 5, candidates=(faster, new, Candidate("other", 1.0, 2.0)))
    assert implementation_rows(examination) == [
        ["convolution 3x3", "jit:avx512_core", "ref:any", "1.00 ms", "2.00 ms"],
        ["reorder", "-", "jit:uni", "0.00 ns", "1.00 us"],
    ]


def test_drawn_numbers_keep_six_digits_and_more() -> None:
    report = made_report(3)
    drawn = Page(to_html(report)).data["cases"]
    by_id = {comparison.case: comparison for comparison in report.comparisons}
    for case in drawn:
        pairs = zip(by_id[case["id"]].samples, case["samples"], strict=True)
        for sample, (_, _, _, control, treatment, log_ratio, _) in pairs:
            assert (control, treatment, log_ratio) == pytest.approx(
                (sample.control, sample.treatment, sample.log_ratio), rel=1e-7
            )


@pytest.mark.parametrize(
    "report",
    [
        Report(RunRecord(), samples.CONTROL, samples.TREATMENT, HostRecord(), ()),
        samples.report([samples.comparison("odd", "inconclusive", float("inf"), ci=(0.0, float("inf")))]),
        samples.report([samples.comparison("odd", "inconclusive", float("nan"), control=float("nan"))]),
    ],
)
def test_odd_reports_are_shown_all_the_same(report: Report) -> None:
    page = Page(to_html(report))
    assert len(page.data["cases"]) == len(report.comparisons)


def test_no_text_becomes_markup() -> None:
    report = hostile(rich_report())
    text = to_html(report)
    page = Page(text)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 4
    assert tags.count("style") == 1
    assert "img" not in tags
    assert "b" not in tags
    assert all(not name.startswith("on") and name != "style" for _, attributes in page.elements for name in attributes)
    links = {attributes["href"] for tag, attributes in page.elements if tag in ("a", "link")}
    assert all(link and link.startswith("#") for link in links)
    text_shown = printable(PAYLOAD)
    assert any(
        row[1].startswith(f"{text_shown}slower") for row in page.rows[1:] if len(row) > 1
    )  # no template in a text
    assert any(f"{text_shown}mxnet==1.9.1 against {text_shown}mxnet==1.8.0.post0" in text for text in page.texts)
    assert page.facts(f"{text_shown}slower/backward")["note"] == f"{text_shown}slower with the same instructions"
    assert f"{text_shown}numpy" in "".join(page.texts)
    for character in "\u202e\u2028\x1b":
        assert character not in text


def test_nothing_but_its_own_scripts_and_styles_may_run() -> None:
    page = Page(to_html(samples.report()))
    (policy,) = (
        attributes["content"]
        for tag, attributes in page.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert set(directives) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    for name in ("script-src", "style-src"):
        assert all(re.fullmatch(r"'sha256-[\w+/]+='", source) for source in directives[name].split())


def test_it_names_nothing_outside_itself() -> None:
    for tag, attributes in Page(to_html(rich_report())).elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")


def test_the_libraries_licences_go_along() -> None:
    text = to_html(samples.report())
    assert "Copyright 2010-2026 Mike Bostock" in text
    assert "Copyright (c) 2013 Mikola Lysenko" in text


def test_the_reporter_writes_to_the_given_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.html"
    reporter = HtmlReporter.from_option(str(path))
    reporter.check()
    assert reporter.report(samples.report(id="one")) == f"page: {path}"
    assert reporter.report(samples.report(id="two")) == f"page: {path}"
    assert "<dd>two</dd>" in path.read_text(encoding="utf-8")
    assert os.listdir(path.parent) == ["run.html"]


def test_a_place_that_cannot_be_written_is_found_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a folder: give a file's name"):
        HtmlReporter.from_option(str(tmp_path)).check()
    with pytest.raises(UsageError, match=r"--html_reporter .*cannot be written"):
        HtmlReporter.from_option(str(tmp_path / "file" / "page.html")).check()
    with pytest.raises(RunError, match="give --html_reporter a file that can be written"):
        HtmlReporter.from_option(str(tmp_path / "file" / "page.html")).report(samples.report())


def test_lone_surrogates_cost_no_page(tmp_path: Path) -> None:
    broken = replace(samples.CONTROL, requested="a\ud800b")
    report = replace(samples.report([samples.comparison("x\udfffy")]), control=broken)
    assert isinstance(broken, Build)
    HtmlReporter.from_option(f"{tmp_path}/page.html").report(report)
    assert "a\\ud800b" in (tmp_path / "page.html").read_text(encoding="utf-8")
