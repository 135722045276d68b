"""Rates and the roof, as the screen says them."""

from dataclasses import replace

import report_samples as samples

from opduel.records import Work
from opduel.records.host_record import RooflineRecord
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.run_text import rates_words, roofline_words
from opduel.reporters.screen import render

ROOFLINE = RooflineRecord(gflops={"float32": 100.0}, gbytes=20.0, threads=1, copied_bytes=1 << 27)
DOT = replace(
    samples.comparison("dot", "unchanged"), control=1000.0, treatment=2000.0, work=Work(50_000.0, 4_000.0, "float32")
)


def test_both_sides_have_rates_and_a_share_of_the_roof() -> None:
    assert rates_words(DOT, ROOFLINE) == (
        "control 50 GFLOP/s, 4 GB/s, 50 % of the roofline; treatment 25 GFLOP/s, 2 GB/s, 25 % of the roofline"
    )
    bytes_alone = replace(DOT, work=Work(None, 10_000.0, "float32"))
    assert (
        rates_words(bytes_alone, ROOFLINE)
        == "control 10 GB/s, 50 % of the roofline; treatment 5 GB/s, 25 % of the roofline"
    )


def test_what_is_not_known_is_not_said() -> None:
    assert rates_words(replace(DOT, work=None), ROOFLINE) == ""
    assert rates_words(DOT, None) == ""
    assert rates_words(replace(DOT, work=Work(10.0, None, "float16")), ROOFLINE) == ""
    assert rates_words(replace(DOT, control=None), ROOFLINE).startswith("treatment 25 GFLOP/s")


def test_the_screen_has_them_only_with_a_roofline() -> None:
    report = samples.report([DOT])
    with_one = replace(report, host=replace(report.host, roofline=ROOFLINE))
    assert "of the roofline" not in render(report)
    assert "of the roofline" in render(with_one)
    assert f"roofline   {roofline_words(ROOFLINE)}" in render(with_one)


def test_work_survives_the_document_and_older_ones_have_none() -> None:
    text = to_bytes(samples.report([DOT])).decode()
    assert from_text(text).comparisons[0].work == DOT.work
    older = text.replace('"work"', '"work_of_which_nobody_knew"')
    assert from_text(older).comparisons[0].work is None
