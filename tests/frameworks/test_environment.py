"""The environment of workers: the user's variables are added, never ours replaced, and no secret is recorded."""

from typing import Any

import pytest

from opduel.frameworks import get_framework, recorded_environment, run_environment, worker_environment
from opduel.records import Build, UsageError

MXNET = get_framework("mxnet")
OVERLAY = Build("mxnet", "abc123", "overlay", "/bin/true", "1.9.1", "3.11", "d", environment={"PYTHONPATH": "/build"})


def test_the_users_variables_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    environment = run_environment(MXNET, 1, {"DNNL_VERBOSE": "1", "PATH": "/mine"}, [OVERLAY])
    ours = {**worker_environment(), **MXNET.environment(1)}
    del ours["PYTHONHASHSEED"]  # which each round draws
    assert environment == {**ours, "DNNL_VERBOSE": "1", "PATH": "/mine", "OPDUEL_ENV": "DNNL_VERBOSE,PATH"}
    assert "OPDUEL_ENV" not in run_environment(MXNET, 1, {}, [OVERLAY])
    assert "OPENBLAS_CORETYPE" not in environment, "the user's own shell is not the run's"


@pytest.mark.parametrize(
    ("user_variables", "error"),
    [
        ({"OMP_NUM_THREADS": "2"}, "--env OMP_NUM_THREADS: is set by opduel itself"),
        ({"MXNET_ENGINE_TYPE": "NaiveEngine"}, "--env MXNET_ENGINE_TYPE: is set by opduel itself"),
        ({"PYTHONHASHSEED": "one"}, "--env PYTHONHASHSEED: is 'one': give a number below 4294967296, or random"),
        ({"PYTHONHASHSEED": "4294967296"}, "--env PYTHONHASHSEED: is '4294967296': give a number"),
        ({"OPDUEL_PADDING": "x"}, "--env OPDUEL_PADDING: is set by opduel itself"),
        ({"PYTHONPATH": "/mine"}, "--env PYTHONPATH: is set by the build abc123 itself"),
    ],
)
def test_ours_and_the_builds_are_not_replaced(user_variables: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        run_environment(MXNET, 1, user_variables, [OVERLAY])


@pytest.mark.parametrize("seed", ["7", "random"])
def test_the_users_seed_of_hashes_is_that_of_the_run(seed: str) -> None:
    assert run_environment(MXNET, 1, {"PYTHONHASHSEED": seed}, [OVERLAY])["PYTHONHASHSEED"] == seed


def test_what_may_be_a_secret_is_not_recorded() -> None:
    user_variables = {
        "DNNL_VERBOSE": "2",
        "PYTHONHASHSEED": "7",
        "MXNET_SUBGRAPH_BACKEND": "NONE",
        "MXNET_ACCESS_TOKEN": "a",
        "MINE": "b",
        "HTTPS_PROXY": "http://me:secret@proxy",
    }
    recorded = recorded_environment({"LC_ALL": "C", **user_variables}, user_variables, "mxnet")
    assert recorded == {
        "LC_ALL": "C",
        "DNNL_VERBOSE": "2",
        "PYTHONHASHSEED": "7",
        "MXNET_SUBGRAPH_BACKEND": "NONE",
        "MXNET_ACCESS_TOKEN": "***",
        "MINE": "***",
        "HTTPS_PROXY": "***",
    }


def test_the_users_priority_is_that_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPDUEL_PRIORITY", "keep")
    assert run_environment(MXNET, 1, {})["OPDUEL_PRIORITY"] == "keep"
    monkeypatch.setenv("OPDUEL_PRIORITY", "low")
    with pytest.raises(UsageError, match="OPDUEL_PRIORITY: is 'low': set it to raise or keep"):
        run_environment(MXNET, 1, {})
