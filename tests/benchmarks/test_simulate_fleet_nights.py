"""The simulated nights: on one host nothing is gained, on more the commits of a night overlap."""

import argparse

import pytest

from benchmarks.simulate_fleet_nights import night
from opduel.harness.specs import expand_cases, find_spec, load_spec

OPTIONS = argparse.Namespace(seed=1, commits=4, start=8.0)


def test_commits_overlap_where_a_run_leaves_hosts_idle() -> None:
    cases = expand_cases(load_spec(find_spec("smoke")))
    _, one_by_one, together = night(cases, [2.0], 1, OPTIONS, 0)
    assert one_by_one == pytest.approx(together)
    for hosts in (2, 8):
        _, one_by_one, together = night(cases, [2.0], hosts, OPTIONS, 0)
        assert together < 0.9 * one_by_one
