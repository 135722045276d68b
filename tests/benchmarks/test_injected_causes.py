"""benchmarks/causes.py: which causes count as named and within, and two causes for real."""

import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks.bench import ROOT
from benchmarks.injected_causes.builds import rename_functions
from benchmarks.injected_causes.cause import FILES, HERE, Cause, Truth, read_causes
from benchmarks.injected_causes.judge import ReportedCause, compare, judge
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


def test_a_cause_is_named_where_the_sentence_has_all_its_names_and_claims_something() -> None:
    sentences = [SENTENCE, SENTENCE.replace("check", "other"), f"not explained: {SENTENCE}", ""]
    assert [reported(*RIGHT, sentence=sentence).is_named for sentence in sentences] == [True, False, False, False]


UNCLEAR = Candidate("memcpy", 1.0, 2.0)
SEVERAL = Truth("memcpy", NATIVE, parts="memcpy|malloc")


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
    ],
)
def test_a_share_is_within_where_its_interval_has_the_truth(
    parts: tuple[Candidate, ...], truths: tuple[Truth, ...] | None, is_within: bool
) -> None:
    assert reported(*parts, **({} if truths is None else {"truths": truths})).is_within == is_within


def test_counts_aims_and_what_was_missed() -> None:
    right, wrong = reported(*RIGHT), reported(sentence="")
    silent, claiming = ["not explained: nothing"] * 2, ["not explained: nothing", "f accounts"]
    assert judge([right], {"same": silent})[0]
    assert not judge([right], {"same": claiming})[0]
    assert not judge([right, wrong], {"same": silent})[0]
    assert judge([right, wrong], {"same": claiming})[1][1:] == [
        "2 causes: 1 of 2 (1.3 to 98.7 %) named, 1 of 2 (1.3 to 98.7 %) with the true share in its interval",
        "not named: a copy: its case was not flagged",
        "control and same: 1 of 2 (1.3 to 98.7 %) claimed",
        "claimed: f accounts",
    ]
    assert right.cells() == ["a copy", "C", "+50 %", "70 %, 30 %", "71 % [70, 72], 29 % [28, 30]"]


def test_every_cause_changes_a_passage_that_is_there_once_and_knows_its_truth() -> None:
    texts = {file: (HERE / file).read_text() for file in FILES.values()}
    causes = read_causes()
    for cause in causes:
        text = texts[FILES[cause.language]]
        assert cause.apply(text) != text
        assert cause.truths
    assert len(causes) >= 10
    with pytest.raises(ValueError, match="2 times"):
        replace(causes[0], edits=[{"before": "a", "after": "b"}]).apply("a a")
    renamed = rename_functions(texts)
    assert "otni_esrever(x" in renamed["kernels.c"]
    assert "sn_reverse" in renamed["kernels.c"]
    assert "def rotcev_(" in renamed["package.py"]
    assert "def reverse(" in renamed["package.py"]


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs valgrind and gcc")
def test_two_causes_are_named_with_their_shares() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "causes.py"), "--only", "7 to 3"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert "2 causes: 2 of 2" in process.stdout, process.stdout + process.stderr
    assert "control and renamed: 0 of 2" in process.stdout
