"""The whole product on two frameworks: NumPy and MXNet, on the same inputs."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_python_packages import finished

from opduel.harness.numerics.output_check import DIFFER

SIDES = ("--control", "numpy==2.2.6", "--treatment", "mxnet==1.9.1")


@pytest.mark.nightly
@pytest.mark.wheels
@pytest.mark.parametrize("fleet", [(), ("--fleet", "local:2")], ids=["host", "fleet"])
def test_two_operators_are_compared_on_the_same_inputs(fleet: tuple[str, ...], tmp_path: Path) -> None:
    """Both of Python packages here; two frameworks, with the words for them, are below."""
    names = {"same": "numpy.positive", "other": "numpy.negative"}
    tests = [
        {
            "identifier": identifier,
            "control": {"framework": "python", "operator": "numpy.copy"},
            "treatment": {"framework": "python", "operator": operator},
            "inputs": {"args": [[8]]},
        }
        for identifier, operator in names.items()
    ]
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"framework": "cross", "tests": tests}))
    sides = ("--control", "numpy==1.26.4", "--treatment", "numpy==2.2.6")
    report, _, _ = finished(tmp_path, 1, "-b", str(spec), "--metric", "time,error", "--max_rounds", "2", *sides, *fleet)
    rows = {row["case"]: row for row in report["comparisons"]}
    assert {case: row["failure"] for case, row in rows.items()} == dict.fromkeys(rows)
    assert rows["same/forward"]["ratio"] is not None
    assert rows["same/forward/error"]["verdict"] == "unchanged"
    assert rows["other/forward/error"]["verdict"] == "regressed"


@pytest.mark.wheels
def test_operators_whose_inputs_have_names_of_their_own_get_the_same_values(tmp_path: Path) -> None:
    """ONNX Runtime's graphs name them as its schemas do, and draw those in order as everybody does."""
    sequence, own = [{"tuple": [[1, 8], [1, 8]]}], {"vstack": {"axis": 0}}
    names: dict[str, tuple[str, str, list[Any]]] = {
        "add": ("numpy.add", "onnx.Add", [[8]] * 2),
        "where": ("numpy.where", "onnx.Where", [[8]] * 3),
        "vstack": ("numpy.vstack", "onnx.ConcatFromSequence", sequence),
    }
    tests = [
        {
            "identifier": identifier,
            "control": {"framework": "python", "operator": control},
            "treatment": {"framework": "onnxruntime", "operator": treatment, "inputs": own.get(identifier, {})},
            "inputs": {"args": args},
        }
        for identifier, (control, treatment, args) in names.items()
    ]
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"framework": "cross", "tests": tests}))
    sides = ("--control", "numpy==2.2.6", "--treatment", "onnxruntime==1.20.1")
    options = ("-b", str(spec), "--metric", "time,error", "--max_rounds", "2", "--sentinels", "1", *sides)
    report, _, _ = finished(tmp_path, None, *options)  # two rounds settle a time or they don't
    rows = {row["case"]: row for row in report["comparisons"]}
    assert rows["add/forward"]["failure"] is None
    assert rows["add/forward"]["ratio"] > 1, "a session's run takes microseconds, a call of NumPy half of one"
    assert rows["add/forward/error"]["verdict"] == "unchanged"
    assert rows["where/forward"]["failure"]["reason"] == DIFFER, "the schema wants booleans"
    assert rows["vstack/forward/error"]["verdict"] == "unchanged", "a sequence has the same values, too"


@pytest.mark.nightly
@pytest.mark.mxnet
@pytest.mark.wheels
def test_two_frameworks_are_compared_on_the_same_inputs(tmp_path: Path) -> None:
    names = {"add": "nd.elemwise_add", "gone": "nd.gone"}
    tests = [
        {
            "identifier": identifier,
            "control": {"framework": "python", "operator": "numpy.add"},
            "treatment": {"framework": "mxnet", "operator": operator},
            "inputs": {"args": [[8], [8]]},
        }
        for identifier, operator in names.items()
    ]
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"framework": "cross", "tests": tests}))
    options = ("-b", str(spec), "--metric", "time,error", "--max_rounds", "10", "--sentinels", "1", "--screen_reporter")
    report, output, _ = finished(tmp_path, 1, *options, *SIDES)
    rows = {row["case"]: row for row in report["comparisons"]}
    assert rows["add/forward"]["failure"] is None
    assert rows["add/forward"]["ratio"] > 1, "a call of MXNet takes tens of microseconds, one of NumPy half of one"
    assert rows["add/forward/error"]["verdict"] == "unchanged"
    assert (rows["gone/forward"]["failure"]["side"], rows["gone/forward"]["failure"]["kind"]) == (
        "treatment",
        "missing",
    )
    assert [report[side]["framework"] for side in ("control", "treatment")] == ["python", "mxnet"]
    assert "regressed: mxnet is slower than python" in output
