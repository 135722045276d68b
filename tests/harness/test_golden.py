"""Golden outputs: kept whole, read in bounds, and compared like a control's."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_output_check import numbers
from test_run import Toy, request
from toy_bench import toy_build

from opduel.harness.numerics.golden import MANIFEST, Golden, read_golden, write_golden
from opduel.harness.numerics.output_check import OTHER_INPUTS
from opduel.harness.other_runs.single import SingleRequest
from opduel.harness.run import run_ab
from opduel.records import Case, Comparison, RunError, UsageError

SEED = 11
CASES = (
    numbers("same"),
    numbers("worse", numbers=[1, 2, 3, 4], off=[0, 0, 1, 2]),
    numbers("allowed", numbers=[100], off=[1e-9]),
    numbers("random", random=True),
    numbers("nan", numbers=["nan", "inf"], off=[0, 0]),
    numbers("broken", "refuse", only_on="treatment"),
    numbers("more", more=True),
)


def write(folder: Path, *cases: Case, on_case: Callable[[int], None] = lambda _: None, **options: Any) -> Any:
    golden_request = SingleRequest(Toy(), toy_build("control", **options), cases or CASES, SEED)
    return write_golden(golden_request, folder, on_case)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs of the toy's control, written by its workers."""
    folder = tmp_path_factory.mktemp("golden") / "new"
    write(folder)
    return folder


def compared(golden: Golden, *cases: Case, **environment: str) -> dict[str, Comparison]:
    request_of_run = replace(request(*(cases or CASES)), golden=golden, control=golden.manifest.build, seed=SEED)
    request_of_run = replace(request_of_run, treatment=toy_build("treatment", **environment))
    return {comparison.case.removesuffix("/error"): comparison for comparison in run_ab(request_of_run).comparisons}


def test_variables_of_the_user_are_set(tmp_path: Path) -> None:
    request_of_run = SingleRequest(Toy(), toy_build("control"), CASES, SEED, env={"TOY_IMPORT": "dies"})
    with pytest.raises(RunError, match="no such library"):
        write_golden(request_of_run, tmp_path / "new")


def test_outputs_are_kept_with_all_that_they_are_of(written: Path) -> None:
    document = json.loads((written / MANIFEST).read_text())
    assert (document["kind"], document["schema_version"], document["seed"]) == ("opduel golden outputs", 3, SEED)
    assert (document["framework"], document["complete"], document["build"]["requested"]) == ("toy", True, "toy")
    assert list(document["cases"]) == [case.time_id for case in CASES]
    worse = document["cases"]["worse"]
    assert worse["determinants"]["inputs"] == {"numbers": [1, 2, 3, 4], "off": [0, 0, 1, 2]}
    assert (worse["determinants"]["operator"], worse["determinants"]["dtype"], worse["determinants"]["direction"]) == (
        "work",
        "float32",
        "forward",
    )
    assert worse["inputs"] == f"worse|{SEED}|"
    (array,) = worse["arrays"]
    assert (array["name"], array["dtype"], array["shape"]) == ("output", "<f8", [4])
    with np.load(written / worse["file"]) as arrays:
        assert list(arrays["arr_0"]) == [1, 2, 3, 4]
    assert sorted(path.name for path in written.iterdir()) == [MANIFEST, "outputs"]


def test_a_build_is_compared_with_them_as_with_a_control(written: Path) -> None:
    golden = read_golden(written)
    golden.check(CASES)
    comparison_by_case = compared(golden)
    assert {name: comparison.verdict for name, comparison in comparison_by_case.items()} == {
        "same": "unchanged",
        "worse": "regressed",
        "allowed": "unchanged",
        "random": "inconclusive",
        "nan": "unchanged",
        "broken": "failed",
        "more": "regressed",
    }
    assert comparison_by_case["worse"].note.startswith("output: at (2,) 3.0 against 4.0; 2 of 4 differ by more than")
    assert comparison_by_case["worse"].rounds == 2  # computed again, in a fresh process
    assert comparison_by_case["random"].note.startswith("the treatment differs from itself in a second process")
    assert comparison_by_case["broken"].is_broken_by_treatment
    assert comparison_by_case["more"].treatment == math.inf


def test_no_control_is_started_and_the_report_says_so(written: Path) -> None:
    golden = read_golden(written)
    unstartable = replace(golden, manifest=replace(golden.manifest, build=toy_build("control", TOY_IMPORT="dies")))
    request_of_run = replace(request(CASES[0]), golden=unstartable, control=unstartable.manifest.build, seed=SEED)
    report = run_ab(request_of_run)
    assert report.comparisons[0].verdict == "unchanged"
    assert report.run.golden == str(written)
    assert report.control == unstartable.manifest.build


def test_other_values_under_the_same_name_are_not_compared(written: Path) -> None:
    comparison_by_case = compared(read_golden(written), CASES[0], CASES[1], TOY_VALUES="others")
    assert [(comparison.verdict, comparison.note) for comparison in comparison_by_case.values()] == [
        ("inconclusive", OTHER_INPUTS)
    ] * 2


def test_what_could_not_be_computed_then_is_not_a_fault_of_now(tmp_path: Path) -> None:
    case = numbers("fragile", "refuse", only_on="control")
    write(tmp_path / "new", CASES[0], case)
    comparison = compared(read_golden(tmp_path / "new"), case)["fragile"]
    assert (comparison.verdict, comparison.failure and comparison.failure.side) == ("failed", "control")
    assert not comparison.is_broken_by_treatment


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (numbers("new"), r"has no outputs of new: choose cases that it has \(same, worse, allowed, ...\), or write it"),
        (numbers("same", numbers=[1]), r"same: inputs differed there: measure the spec that it was written with"),
        (replace(numbers("same"), dtype="float64"), r"same: dtype differed there"),
        (numbers("same", "other"), r"same: operator differed there"),
    ],
)
def test_other_inputs_are_refused_before_anything_is_computed(written: Path, case: Case, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_golden(written).check([case])


@pytest.fixture
def copied(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "copy"))


def damage(folder: Path, **changes: Any) -> None:
    document = json.loads((folder / MANIFEST).read_text())
    document.update(changes)
    (folder / MANIFEST).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "other"}, "kind: is not 'opduel golden outputs'"),
        ({"schema_version": 4}, "schema_version: is 4, newer than the 3 known here: use a newer opduel"),
        ({"schema_version": 1}, "schema_version: is 1, older than the 3 known here: measure again"),
        ({"seed": "x"}, "seed is 'x': use an integer"),
        ({"cases": {"same": {"determinants": {}, "file": "../x"}}}, "cases.same.file: is '../x', not a path in the"),
        ({"cases": {"same": {"determinants": {}, "file": "/etc/x"}}}, "cases.same.file: is '/etc/x', not a path"),
        ({"cases": 1}, "cases is 1: use an object"),
    ],
)
def test_a_manifest_that_is_none_is_one_line(copied: Path, changes: dict[str, Any], words: str) -> None:
    damage(copied, **changes)
    with pytest.raises(UsageError, match=words) as caught:
        read_golden(copied)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_folder_without_a_manifest(copied: Path, content: bytes | None) -> None:
    (copied / MANIFEST).unlink()
    if content is not None:
        (copied / MANIFEST).write_bytes(content)
    with pytest.raises(UsageError, match=r"golden.json: .*: give a folder that --golden wrote"):
        read_golden(copied)


def test_a_damaged_file_is_found_before_anything_is_computed(copied: Path) -> None:
    golden = read_golden(copied)
    file = copied / golden.manifest.cases["same"].file
    for content in (b"", b"PK" + b"\0" * 100, file.read_bytes()[:-1]):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=r"outputs/00000.npz: is not the file that was written"):
            golden.check([CASES[0]])
    golden.check([CASES[1]])
    file.unlink()
    with pytest.raises(UsageError, match=r"outputs/00000.npz: cannot be read \(No such file"):
        golden.check([CASES[0]])


def test_nothing_of_a_user_is_overwritten(written: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for folder, words in (
        (tmp_path, "holds other files"),
        (written, "holds golden outputs"),
        (tmp_path / "notes.txt", "Not"),
    ):
        with pytest.raises(UsageError, match=words):
            write(folder, CASES[0])
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_signal_keeps_what_was_computed_and_says_that_it_is_not_all(tmp_path: Path) -> None:
    def stop(cases_done: int) -> None:
        if cases_done == 2:
            raise KeyboardInterrupt("stopped by SIGTERM")

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "new", *CASES[:4], on_case=stop)
    golden = read_golden(tmp_path / "new")
    assert (list(golden.manifest.cases), golden.manifest.complete) == (["same", "worse"], False)
    with pytest.raises(UsageError, match=r"has no outputs of allowed and 1 other cases, and was not completed"):
        golden.check(CASES[:4])


def test_where_nothing_can_be_computed_nothing_is_kept(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no outputs could be computed: ValueError: Shapes"):
        write(tmp_path / "new", numbers("refused", "refuse"))
    assert list((tmp_path / "new").iterdir()) == []  # so that the same command can be tried again
    with pytest.raises(RunError, match=r"no such library"):
        write(tmp_path / "dies", CASES[0], TOY_IMPORT="dies")
