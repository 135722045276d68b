"""benchmarks/causes.py: which causes count as named and within, and two causes for real."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bench import ROOT
from benchmarks.injected_causes.builds import rename_functions
from benchmarks.injected_causes.cause import FILES, HERE, Cause, Truth, read_causes
from benchmarks.injected_causes.clocked import measure_share
from benchmarks.injected_causes.judge import ReportedCause, compare, misses_aim, summary
from opduel.records import Case, Comparison
from opduel.records import Cause as NamedCause
from opduel.records.cause import Candidate, Examination

NATIVE = "native functions"
CHECK = Truth("check", NATIVE, 0.3)
SENTENCE = "f accounts for 100 % of the added time; in native code, memcpy: 71 %, check: 29 % of the added instructions"


def part(name: str, share: float, reach: float = 0.01, was: str = "") -> Candidate:
    return Candidate(name, 1.0, 2.0, share, (share - reach, share + reach), was=was)


RIGHT = (part("__memcpy_avx", 0.71), part("check_again", 0.29, was="check"))


def reported(
    *parts: Candidate, truths: tuple[Truth, ...] = (Truth("memcpy", NATIVE, 0.7), CHECK), sentence: str = SENTENCE
) -> ReportedCause:
    case = Case("c", "op", "forward", {}, "float32", "cpu", 0.02, 60.0)
    named = NamedCause(sentence, (Examination(NATIVE, "instructions", 5, candidates=parts),)) if sentence else None
    comparison = replace(Comparison.without_figures(case, "regressed"), ratio=1.5, cause=named)
    return compare(Cause("C", "a copy", "reverse", {}, [], truths), comparison)


@pytest.mark.parametrize(
    ("sentence", "is_named"),
    [
        (SENTENCE, True),
        ("memcpy accounts for 100 % of the added instructions", False),  # the other part isn't there
        (f"not explained: {SENTENCE}", False),
        ("", False),
    ],
)
def test_a_cause_is_named_where_the_sentence_has_all_its_names_and_claims_something(
    sentence: str, is_named: bool
) -> None:
    assert reported(*RIGHT, sentence=sentence).is_named == is_named


UNCLEAR = Candidate("memcpy", 1.0, 2.0)
SEVERAL, MEASURED = Truth("memcpy", NATIVE, parts="memcpy|malloc"), Truth("memcpy", NATIVE, 0.75, reach=0.05)


@pytest.mark.parametrize(
    ("parts", "truths", "is_within"),
    [
        (RIGHT, None, True),
        ((part("memcpy", 0.73, 0.02), part("check", 0.27)), None, False),
        ((part("memcpy", 0.71),), None, False),  # the other isn't there
        ((part("memcpy_a", 0.35), part("memcpy_b", 0.36), part("check", 0.3)), None, True),  # limits of parts add up
        ((UNCLEAR, part("check", 0.3)), None, False),
        # Parts that are too small to be listed may have what no other has.
        ((part("memcpy", 0.985, 0.001),), (SEVERAL,), True),
        ((part("memcpy", 0.985, 0.001),), (replace(SEVERAL, parts=""),), False),
        ((part("memcpy", 0.985, 0.001), part("g", 0.01, 0.001)), (SEVERAL,), False),
        # A measured share may be off by its own interval.
        ((part("memcpy", 0.71),), (MEASURED,), True),
        ((part("memcpy", 0.68),), (MEASURED,), False),
    ],
)
def test_a_share_is_within_where_its_interval_has_the_truth(
    parts: tuple[Candidate, ...], truths: tuple[Truth, ...] | None, is_within: bool
) -> None:
    assert reported(*parts, **({} if truths is None else {"truths": truths})).is_within == is_within


def test_counts_aims_and_what_was_missed() -> None:
    right, wrong = reported(*RIGHT), reported(sentence="")
    silent, claiming = ["not explained: nothing"] * 2, ["not explained: nothing", "f accounts"]
    assert not misses_aim([right], {"same": silent})
    assert misses_aim([right], {"same": claiming})
    assert misses_aim([right, wrong], {"same": silent})
    assert summary([right, wrong], {"same": claiming})[1:] == [
        "2 causes: 1 of 2 [1%, 99%] named, 1 of 2 [1%, 99%] with the true share in its interval",
        "not named: a copy: its case was not flagged",
        "control and same: 1 of 2 [1%, 99%] claimed",
        "claimed: f accounts",
    ]
    assert right.cells() == ["a copy", "C", "+50 %", "70 %, 30 %", "71 % [70, 72], 29 % [28, 30]"]


def test_a_share_is_measured_by_the_clock() -> None:
    setup = "from time import perf_counter_ns\ndef spin(ns):\n  end = perf_counter_ns() + ns\n"
    setup += "  while perf_counter_ns() < end: pass"
    expressions = {
        side: {"setup": setup, "part": f"spin({part_ns})", "rest": f"spin({rest_ns})"}
        for side, part_ns, rest_ns in (("control", 10_000, 10_000), ("treatment", 40_000, 20_000))
    }
    pythons = dict.fromkeys(expressions, Path(sys.executable))
    share, reach = measure_share(pythons, "json", expressions, dict(os.environ))
    assert share == pytest.approx(0.75, abs=0.05 + reach)
    assert reach > 0


def test_every_cause_changes_a_passage_that_is_there_once_and_knows_its_truth() -> None:
    texts = {language: (HERE / file).read_text() for language, file in FILES.items()}
    causes = read_causes()
    for cause in causes:
        assert cause.apply(texts[cause.language]) != texts[cause.language]
        assert cause.truths
    assert len(causes) >= 20
    with pytest.raises(ValueError, match="2 times"):
        replace(causes[0], edits=[{"before": "a", "after": "b"}]).apply("a a")
    assert "scale_line(x" in rename_functions(texts["C"])
    assert "scale_row" not in rename_functions(texts["C"])


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs valgrind and gcc")
def test_two_causes_are_named_with_their_shares() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "causes.py"), "--only", "7 to 3"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert "2 causes: 2 of 2" in process.stdout, process.stdout + process.stderr
    assert "control and renamed: 0 of 2" in process.stdout
