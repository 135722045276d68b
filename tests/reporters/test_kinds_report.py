"""A report of several kinds of host: the table of case by kind, wherever it is read, and what is a difference."""

import json
from dataclasses import replace
from typing import Any

import pytest
from report_samples import comparison, failed, report

from opduel.records import Comparison, Failure, PairSample, Report, Verdict
from opduel.records.measurement import Side
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.formats import FORMATS
from opduel.reporters.html import to_html
from opduel.reporters.kinds import kinds_table, kinds_text
from opduel.reporters.markdown import to_markdown
from opduel.reporters.reproduce import reproduction
from opduel.reporters.screen import render
from opduel.reporters.simple_screen import tab_separated

OF_SAMPLES = ("pyperf", "benchstat", "csv-samples", "hyperfine")
OLD, NEW = "xeon-e5-2680+avx2", "intel-xeon-platinum-8375c-2.90ghz+avx512_vnni"


def on(kind: str, case: str, verdict: Verdict, ratio: float | None = 1.001, **changes: Any) -> Comparison:
    row = failed(case) if verdict == "failed" else comparison(case, verdict, ratio)
    return replace(row, case=f"{case}@{kind}", kind=kind, host=f"bench-{kind[0]}", **changes)


def by_kind(*rows: Comparison) -> Report:
    fleet = {
        "hosts": [{"name": f"bench-{kind[0]}", "cases": 2, "kind": kind} for kind in (OLD, NEW)],
        "kinds": [{"name": kind, "hosts": [f"bench-{kind[0]}"], "stop_reason": None} for kind in (OLD, NEW)],
    }
    sample = report(rows, fleet=fleet)
    cases = [replace(case, kind=row.kind) for case, row in zip(sample.cases, rows, strict=True)]
    return replace(sample, cases=tuple(cases))


SAMPLE = by_kind(
    on(OLD, "steady", "unchanged"),
    on(NEW, "steady", "unchanged"),
    on(OLD, "open", "regressed", 1.2),
    on(NEW, "open", "inconclusive"),
    on(OLD, "slower", "regressed", 1.053),
    on(NEW, "slower", "unchanged"),
)


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ("regressed", "unchanged", True),
        ("regressed", "improved", True),
        ("improved", "unchanged", True),
        ("regressed", "inconclusive", False),
        ("unchanged", "inconclusive", False),
        ("regressed", "regressed", False),
        ("regressed", "not_worse", True),
        ("improved", "not_better", True),
        ("regressed", "not_better", False),
        ("improved", "not_worse", False),
        ("unchanged", "not_worse", False),
        ("not_worse", "not_better", False),
        ("not_worse", "inconclusive", False),
        ("failed", "not_worse", True),
        ("failed", "unchanged", True),
        ("failed", "inconclusive", False),
    ],
)
def test_kinds_differ_where_their_verdicts_exclude_each_other(first: Verdict, second: Verdict, differs: bool) -> None:
    table = kinds_table(by_kind(on(OLD, "a", first), on(NEW, "a", second)))
    assert table is not None
    assert [row.differs for row in table.rows] == [differs]


def test_what_could_not_be_measured_says_nothing_of_a_difference() -> None:
    killed = on(OLD, "a", "failed", failure=Failure("treatment", "killed", "SIGKILL from outside"))
    both = on(OLD, "b", "failed", failure=Failure("both", "error", "no such operator"))
    table = kinds_table(by_kind(killed, on(NEW, "a", "unchanged"), both, on(NEW, "b", "unchanged")))
    assert table is not None
    assert not any(row.differs for row in table.rows)
    assert table.summary == "no case is known to differ between the 2 kinds of host"


def test_those_that_differ_come_first_and_are_named() -> None:
    table = kinds_table(SAMPLE)
    assert table is not None
    assert [row.case for row in table.rows] == ["slower", "open", "steady"]
    assert [row.case for row in table.notable_rows] == ["slower", "open"]
    assert table.summary == "1 case differs by kind of host: slower"
    opposite: dict[str, Verdict] = {OLD: "regressed", NEW: "improved"}
    many = kinds_table(by_kind(*(on(kind, f"c{n}", opposite[kind]) for n in range(7) for kind in (OLD, NEW))))
    assert many is not None
    assert many.summary == "7 cases differ by kind of host: c0, c1, c2, c3, c4 and 2 more"


def test_on_the_screen() -> None:
    text = render(SAMPLE)
    assert max(map(len, text.splitlines())) <= 80
    table = text[text.index("case by kind") :]
    assert f"\nslower\n  {OLD}: regressed +5.3 %\n  {NEW}: unchanged +0.1 %\n" in table
    assert f"\nopen\n  {OLD}: regressed +20.0 %\n  {NEW}: inconclusive +0.1 %\n" in table
    assert "steady" not in table
    assert "1 case differs by kind of host: slower\n" in table
    assert text.count(f"kinds      {OLD}: bench-x;\n           {NEW}: ") == 1


def test_in_markdown() -> None:
    lines = to_markdown(SAMPLE).splitlines()
    start = lines.index("### By kind of host")
    assert lines[start + 2] == "1 case differs by kind of host: slower."
    assert lines[start + 4] == f"| case | `{OLD}` | `{NEW}` |"
    assert lines[start + 6] == r"| `slower` | regressed +5.3 % | unchanged +0.1 % |"
    assert lines[start + 7].startswith("| `open` |")
    assert lines[start + 8] == ""


def test_on_the_page() -> None:
    page = to_html(SAMPLE)
    section = page[page.index('id="by-kind"') : page.index("</section>", page.index('id="by-kind"'))]
    assert "1 case differs by kind of host: slower." in section
    assert f'<th scope="col">{OLD}</th><th scope="col">{NEW}</th>' in section
    assert section.index("slower") < section.index("steady")
    assert f'href="#case=slower%40{OLD.replace("+", "%2B")}">regressed +5.3 %</a>' in section
    assert 'id="by-kind"' not in to_html(report())


def test_in_json_each_row_has_its_kind_and_is_read_back() -> None:
    document = json.loads(to_bytes(SAMPLE))
    assert [entry["kind"] for entry in document["comparisons"]] == [OLD, NEW] * 3
    assert [entry["kind"] for entry in document["cases"]] == [OLD, NEW] * 3
    assert [entry["name"] for entry in document["run"]["fleet"]["kinds"]] == [OLD, NEW]
    again = from_text(to_bytes(SAMPLE).decode())
    assert kinds_table(again) == kinds_table(SAMPLE)
    assert render(again) == render(SAMPLE)


def test_reports_from_before_there_were_kinds_are_read() -> None:
    document = json.loads(to_bytes(report()))
    for entry in (*document["comparisons"], *document["cases"]):
        del entry["kind"]
    old = from_text(json.dumps(document))
    assert kinds_table(old) is None
    assert kinds_text(old) == ""
    assert render(old) == render(report())


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in (*OF_SAMPLES, "speedscope")])
def test_formats_have_a_line_for_each_row(name: str) -> None:
    text = FORMATS[name].write(SAMPLE, None).text.replace("\\@", "@")
    for row in SAMPLE.comparisons:
        assert row.case in text or row.case.replace("+", "%2B").replace("@", "%40") in text


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_formats_of_samples_keep_those_of_each_row(name: str) -> None:
    sampled = replace(
        SAMPLE.comparisons[4], samples=(PairSample("slower", "screening", 0, 1e5, 1.05e5, 0.049, 8, 640),)
    )
    side: Side | None = "treatment" if FORMATS[name].sides == "one" else None
    assert "slower@xeon" in FORMATS[name].write(replace(SAMPLE, comparisons=[sampled]), side).text


def test_lines_of_programs_have_host_and_kind() -> None:
    header, first, *_ = tab_separated(SAMPLE)
    row = dict(zip(header.split("\t"), first.split("\t"), strict=True))
    assert (row["host"], row["kind"]) == ("bench-x", OLD)


def test_the_command_that_measures_it_again_names_the_case() -> None:
    again = reproduction(SAMPLE)
    words = [again.of(comparison) for comparison in SAMPLE.comparisons]
    assert words[4] == words[5] == "--operators slower"


def test_a_case_that_no_host_measured_is_called_so() -> None:
    none = on(NEW, "a", "inconclusive", None, rounds=0)
    text = render(by_kind(on(OLD, "a", "regressed", 1.05), none))
    assert "not measured" in text[text.index("case by kind") :]
