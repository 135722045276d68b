"""Which processors measure."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.harness.machine.cpus import parse_cpu_list, plan_cpus
from opduel.records import UsageError


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", {0}), ("0-3,8\n", {0, 1, 2, 3, 8}), ("", set()), ("2-2,5-6", {2, 5, 6})]
)
def test_kernel_lists(text: str, cpus: set[int]) -> None:
    assert parse_cpu_list(text) == cpus


@given(st.sets(st.integers(0, 300)))
def test_any_set_written_as_singles(cpus: set[int]) -> None:
    assert parse_cpu_list(",".join(map(str, sorted(cpus)))) == cpus


def test_plan_leaves_the_first_processor_to_the_controller() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    plan = plan_cpus(1)
    assert plan.measure == {allowed[-1]}
    assert plan.measure <= plan.start <= set(allowed)
    assert plan_cpus(len(allowed)).measure == set(allowed)


def test_more_threads_than_processors_is_an_error() -> None:
    too_many = len(os.sched_getaffinity(0)) + 1
    with pytest.raises(UsageError, match=f"--threads {too_many}: this process may use"):
        plan_cpus(too_many)
