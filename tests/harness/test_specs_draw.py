"""Random sizes: drawn from a seed, consistent within a case, and named in its id."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.harness.specs.draw import draws
from opduel.records import Case, UsageError

DOT = {
    "operator": "nd.dot",
    "random": {"n": [1, 512], "m": [1, 4096]},
    "count": 5,
    "inputs": {"lhs": ["n", "m"], "rhs": ["m", "n"]},
}


def expanded(folder: Path, *tests: dict[str, Any], seed: int = 0, **fields: Any) -> list[Case]:
    path = folder / "spec.json"
    path.write_text(json.dumps({"framework": "mxnet", "tests": list(tests), **fields}), encoding="utf-8")
    return expand_cases(load_spec(path), seed=seed)


def test_a_name_has_one_size_within_a_case_and_the_id_says_which(tmp_path: Path) -> None:
    cases = expanded(tmp_path, DOT, seed=3)
    assert len({case.id for case in cases}) == 5
    for case in cases:
        n, m = case.inputs["lhs"]
        assert case.inputs["rhs"] == [m, n]
        assert (1 <= n <= 512, 1 <= m <= 4096) == (True, True)
        assert case.id == f"dot_n{n}_m{m}/forward"


def test_the_seed_decides_and_a_spec_s_own_goes_before(tmp_path: Path) -> None:
    assert expanded(tmp_path, DOT, seed=3) == expanded(tmp_path, DOT, seed=3)
    assert expanded(tmp_path, DOT, seed=3) != expanded(tmp_path, DOT, seed=4)
    confirmation = {"defaults": {"seed": 3}}
    assert expanded(tmp_path, DOT, seed=4, **confirmation) == expanded(tmp_path, DOT, seed=3)
    assert expanded(tmp_path, {**DOT, "seed": 9}, **confirmation) == expanded(tmp_path, DOT, seed=9)


def test_another_test_in_the_spec_changes_no_draw(tmp_path: Path) -> None:
    other = {**DOT, "operator": "nd.elemwise_add", "inputs": {"lhs": ["n", "m"], "rhs": ["n", "m"]}}
    assert {case.id for case in expanded(tmp_path, DOT)} < {case.id for case in expanded(tmp_path, other, DOT)}


def test_names_stand_wherever_a_size_does(tmp_path: Path) -> None:
    test = {
        "operator": "nd.take",
        "identifier": "t{DRAWN}",
        "random": {"rows": [7, 7], "k": [2, 2]},
        "inputs": [
            {"a": {"shape": ["rows", 3]}, "indices": {"shape": ["k"], "dtype": "int32", "low": 0, "high": "rows"}},
            {"args": [["k"], {"shape": ["rows"]}], "num": {"size": "k"}, "mode": "k", "case": {"identifier": "u"}},
            {"a": {"tuple": [["k", 3], {"shape": ["rows"]}]}, "case": {"identifier": "v"}},
        ],
    }
    first, second, third = expanded(tmp_path, test)
    assert third.inputs == {"a": {"tuple": [[2, 3], {"shape": [7]}]}}
    assert first.id == "trows7_k2/forward"
    assert first.inputs["indices"] == {"shape": [2], "dtype": "int32", "low": 0, "high": 7}
    assert second.id == "u_rows7_k2/forward"
    assert second.inputs == {"args": [[2], {"shape": [7]}], "num": 2, "mode": "k"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"random": {"n": [1, 2]}}, "tests[0].inputs.lhs[1] is 'm': use an integer, or a size that the test draws"),
        ({"inputs": {"a": {"tuple": [["typo", 3]]}}}, "tests[0].inputs.a.tuple[0][0] is 'typo'"),
        ({"random": {"n": [1, 1], "m": [1, 2]}}, "only 2 different draws, but count is 5"),
        ({"random": {"n": [0, 2], "m": [1, 2]}}, "tests[0].random.n is [0, 2]: use the smallest and the largest"),
        ({"random": {"n": [3, 2], "m": [1, 2]}}, "tests[0].random.n is [3, 2]"),
        ({"random": {"n": [3], "m": [1, 2]}}, "tests[0].random.n is [3]"),
        ({"random": {"n": [1, "x"], "m": [1, 2]}}, "tests[0].random.n[1] is 'x': use an integer"),
        ({"random": {}}, "tests[0].random is empty"),
        ({"random": {"2n": [1, 2]}}, "'2n': name a size such as n"),
        ({"count": 0}, "tests[0].count is 0: use at least 1"),
        ({"count": 10**9}, "tests[0].count is 1000000000: use at most 1000"),
        ({"seed": -1}, "tests[0].seed is -1: use at least 0"),
        (
            {"random": {"n": [2**30, 2**30], "m": [2**30, 2**30]}, "count": 1},
            "tests[0].inputs, with n 1073741824, m 1073741824: lhs has 1152921504606846976 elements: use at most",
        ),
    ],
)
def test_what_can_t_be_drawn_is_said_in_one_line(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        expanded(tmp_path, {**DOT, **changes})
    assert words in str(caught.value)


def test_names_and_counts_need_something_that_is_drawn(tmp_path: Path) -> None:
    plain = {"operator": "nd.exp", "inputs": {"data": [2]}}
    with pytest.raises(UsageError, match=r"tests\[0\].count says how many are drawn: add random"):
        expanded(tmp_path, {**plain, "count": 2})
    with pytest.raises(UsageError, match=r"draws nothing for \{DRAWN\}"):
        expanded(tmp_path, {**plain, "identifier": "x{DRAWN}"})


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 30), st.text(max_size=5))
def test_draws_lie_within_and_differ(low: int, more: int, count: int, key: str) -> None:
    sizes = [draw["n"] for draw in draws({"n": [low, low + more]}, count, key)]
    assert all(low <= size <= low + more for size in sizes)
    assert len(set(sizes)) == len(sizes) <= count
    assert sizes == [draw["n"] for draw in draws({"n": [low, low + more]}, count, key)]


def test_half_of_the_sizes_lie_below_the_geometric_mean() -> None:
    sizes = [draw["n"] for draw in draws({"n": [2**20, 2**40]}, 1000, "any")]
    below = sum(math.log2(size) < 30 for size in sizes)
    assert 421 <= below <= 579  # five standard deviations; so few draws among so many sizes hardly ever meet


def test_the_shipped_random_spec_covers_its_families() -> None:
    cases = expand_cases(load_spec(find_spec("random")), seed=11)
    assert {"nd.dot", "nd.FullyConnected", "nd.Convolution", "nd.take", "nd.sum"} <= {case.operator for case in cases}
    assert [case.id for case in cases] != [case.id for case in expand_cases(load_spec(find_spec("random")), seed=12)]
