"""What MXNet computes, written and compared: dense, sparse, several outputs, gradients, states changed in place."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_oracle import answers_of

from opduel.records import Build

pytestmark = pytest.mark.mxnet

CASES: dict[str, dict[str, Any]] = {
    "dot": {"operator": "nd.dot", "direction": "both", "inputs": {"lhs": [2, 3], "rhs": [3, 4]}},
    "softmax": {"operator": "nd.softmax", "direction": "backward", "inputs": {"data": [2, 3]}},
    "topk": {"operator": "nd.topk", "inputs": {"data": [2, 8], "ret_typ": "both", "k": 3}},
    "momentum": {
        "operator": "nd.sgd_mom_update",
        "inputs": {"weight": [4], "grad": [4], "mom": [4], "lr": 0.1, "momentum": 0.9},
    },
    "sparse": {"operator": "nd.cast_storage", "inputs": {"data": [4, 4], "stype": "csr"}},
    "random": {"operator": "nd.random.normal", "inputs": {"shape": {"value": [5]}}},
}

# The inputs of "dot", in every release: when this changes, golden outputs that were kept before are of no use.
DOT = "5e83f1d095c1dd3d459d898ac70c418a134501ee3ec6df862807d20bab72f0c3"


def results(build: Build, folder: Path, limit: int = 1 << 20) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """By case, what is written to ``folder``, and the digests of its inputs."""
    usual = {"direction": "forward", "dtype": "float32", "context": "cpu"}
    questions = [({"id": name, **usual, **case}, str(folder / name), limit) for name, case in CASES.items()]
    entries, digests = zip(*answers_of(build, "results_of.py", questions), strict=True)
    return dict(zip(CASES, entries, strict=True)), dict(zip(CASES, digests, strict=True))


def numbers(folder: Path, name: str, entry: dict[str, Any]) -> Any:
    return np.fromfile(folder / name / entry["file"], dtype=entry["dtype"]).reshape(entry["shape"])


@pytest.mark.parametrize("version", ["mxnet_1_5", "mxnet_1_9"])
def test_all_that_a_call_computes_is_written(version: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    entries_by_case, digests = results(request.getfixturevalue(version), tmp_path)
    names = {name: [entry["name"] for entry in case_entries] for name, case_entries in entries_by_case.items()}
    assert names == {
        "dot": ["output", "gradient of lhs", "gradient of rhs"],
        "softmax": ["gradient of data"],
        "topk": ["output[0]", "output[1]"],
        "momentum": ["output", "mom after the call"],
        "sparse": ["output"],
        "random": ["output"],
    }
    assert [entry["storage"] for entry in entries_by_case["sparse"]] == ["csr"]
    assert entries_by_case["sparse"][0]["shape"] == [4, 4]
    values, indices = (numbers(tmp_path, "topk", entry) for entry in entries_by_case["topk"])
    assert (np.diff(values) <= 0).all()
    assert set(indices.reshape(-1)) <= set(range(8))
    gradient = numbers(tmp_path, "softmax", entries_by_case["softmax"][0])
    assert np.abs(gradient).max() > 1e-3, "of the plain sum of a softmax there would be no gradient"
    again = tmp_path / "again"
    repeated, same_digests = results(request.getfixturevalue(version), again)
    for name, case_entries in entries_by_case.items():
        for entry, other in zip(case_entries, repeated[name], strict=True):
            assert np.array_equal(numbers(tmp_path, name, entry), numbers(again, name, other)), name
    assert digests == same_digests
    assert digests.pop("random") == [""] * 3, "it has no inputs"
    assert all(len(first) == 64 and first == same != other for first, same, other in digests.values())
    assert digests["dot"][0] == DOT  # whatever the release and its numpy


def test_no_more_is_written_than_the_limit_allows(mxnet_1_9: Build, tmp_path: Path) -> None:
    entry = results(mxnet_1_9, tmp_path, limit=16)[0]["dot"][0]
    assert (entry["count"], entry["shape"]) == (4, [2, 4])
    assert (tmp_path / "dot" / entry["file"]).stat().st_size == 16
