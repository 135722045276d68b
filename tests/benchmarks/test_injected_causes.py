"""benchmarks/causes.py: which causes count as named and within, and two causes for real."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.injected_causes.builds import HERE, rename_functions
from benchmarks.injected_causes.catalogue import CAUSES
from benchmarks.injected_causes.cause import FILES, Cause, Truth, apply_edits
from benchmarks.injected_causes.clocked import measure_share
from benchmarks.injected_causes.judge import EqualBuilds, ReportedCause, compare, misses_aim, summary, table

ROOT = Path(__file__).resolve().parents[2]
COPY = Cause("C", "a copy", "reverse", {}, [], [Truth("memcpy", 0.7), Truth("check", 0.3)])
SENTENCE = "f accounts for 100 % of the added time; in native code, memcpy: 71 %, check: 29 % of the added instructions"


def part(name: str, share: float, reach: float = 0.01, was: str = "") -> dict[str, Any]:
    return {"name": name, "share": share, "ci": [share - reach, share + reach], "was": was, "merged": []}


def comparison(*parts: Mapping[str, Any], sentence: str = SENTENCE) -> dict[str, Any]:
    native = {"source": "native functions", "candidates": [*parts]}
    return {"ratio": 1.5, "cause": {"sentence": sentence, "examinations": [native]}}


def reported(*parts: Mapping[str, Any], sentence: str = SENTENCE) -> ReportedCause:
    return compare(COPY, comparison(*parts, sentence=sentence))


RIGHT = (part("__memcpy_avx", 0.71), part("check_again", 0.29, was="check"))


def test_a_cause_is_named_where_the_sentence_has_all_its_names_and_claims_something() -> None:
    assert reported(*RIGHT).is_named
    assert not reported(*RIGHT, sentence="memcpy accounts for 100 % of the added instructions").is_named
    assert not reported(*RIGHT, sentence=f"not explained: {SENTENCE}").is_named
    assert not compare(COPY, {"ratio": 1.0, "cause": None}).is_named


def test_a_share_is_within_where_its_interval_has_the_truth() -> None:
    assert reported(*RIGHT).is_within
    assert not reported(part("memcpy", 0.73, 0.02), part("check", 0.27)).is_within
    assert not reported(part("memcpy", 0.71)).is_within  # the other isn't there
    halves = part("memcpy_a", 0.35, 0.01), part("memcpy_b", 0.36, 0.01), part("check", 0.3)
    assert reported(*halves).is_within  # limits of parts add up
    assert not reported({**part("memcpy", 0.7), "share": None, "ci": None}, part("check", 0.3)).is_within


def test_parts_that_are_too_small_to_be_listed_may_have_what_no_other_has() -> None:
    several = Cause("C", "a copy", "reverse", {}, [], [Truth("memcpy", 1.0, parts="memcpy|malloc")])
    alone = Cause("C", "a copy", "reverse", {}, [], [Truth("memcpy", 1.0)])
    copied = comparison(part("memcpy", 0.985, 0.001))
    assert compare(several, copied).is_within
    assert not compare(alone, copied).is_within
    assert not compare(several, comparison(part("memcpy", 0.985, 0.001), part("g", 0.01, 0.001))).is_within


def test_a_measured_share_may_be_off_by_its_own_interval() -> None:
    measured = Truth("memcpy", 0.75, reach=0.05)
    assert compare(Cause("C", "a", "f", {}, [], [measured]), comparison(part("memcpy", 0.71))).is_within
    assert not compare(Cause("C", "a", "f", {}, [], [measured]), comparison(part("memcpy", 0.68))).is_within


def test_counts_aims_and_what_was_missed() -> None:
    right, wrong = reported(*RIGHT), compare(COPY, {"ratio": 1.0, "cause": None})
    silent, loud = (
        EqualBuilds(3.0, ["not explained: nothing"] * 2),
        EqualBuilds(3.0, ["not explained: nothing", "f accounts"]),
    )
    assert not misses_aim([right], {"same": silent})
    assert misses_aim([right], {"same": loud})
    assert misses_aim([right, wrong], {"same": silent})
    lines = summary([right, wrong], {"same": loud})
    assert lines[1] == ("2 causes: 1 of 2 [1%, 99%] named, 1 of 2 [1%, 99%] with the true share in its interval")
    assert "not named: a copy: its case was not flagged" in lines
    assert "control and same: 1 of 2 [1%, 99%] claimed; 2 cases took 3 s" in lines
    assert "claimed: f accounts" in lines
    assert table([right])[2] == "| a copy | C | +50 % | 70 %, 30 % | 71 % [70, 72], 29 % [28, 30] |"


SPINNING = """
def spin(clock, ns):
    end = clock() + ns
    while clock() < end:
        pass

def clocked(clock):
    start = clock()
    spin(clock, PART)
    middle = clock()
    spin(clock, REST)
    return middle - start, clock() - start
"""


def test_a_share_is_measured_by_the_clock() -> None:
    texts = {
        "control": SPINNING.replace("PART", "10_000").replace("REST", "10_000"),
        "treatment": SPINNING.replace("PART", "40_000").replace("REST", "20_000"),
    }
    share, reach = measure_share(dict.fromkeys(texts, Path(sys.executable)), "json", texts, dict(os.environ))
    assert share == pytest.approx(0.75, abs=0.05 + reach)
    assert reach > 0


def test_every_cause_changes_a_passage_that_is_there_once_and_knows_its_truth() -> None:
    texts = {language: (HERE / file).read_text() for language, file in FILES.items()}
    for cause in CAUSES:
        assert apply_edits(texts[cause.language], cause.edits) != texts[cause.language]
        assert cause.truths
    assert len(CAUSES) >= 20
    with pytest.raises(ValueError, match="2 times"):
        apply_edits("a a", [("a", "b")])
    assert "scale_line(x" in rename_functions(texts["C"])
    assert "scale_row" not in rename_functions(texts["C"])


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs valgrind and gcc")
def test_two_causes_are_named_with_their_shares() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "causes.py"), "--only", "7 to 3", "--aa", "1"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert "2 causes: 2 of 2" in process.stdout, process.stdout + process.stderr
    assert "control and renamed: 0 of 1" in process.stdout
