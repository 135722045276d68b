"""What a shard is measured with: the run's configuration, but for its part of the time."""

from dataclasses import replace

import pytest
from made_samples import a_case

from opduel.fleet.job import shard_configuration
from opduel.fleet.shards import Shard
from opduel.frameworks import get_framework
from opduel.harness.run_request import RunRequest
from opduel.records import Build, RunConfiguration, usual_rounds

CASES = [a_case("small", threshold=0.001), a_case("usual", threshold=0.02)]
BUILD = Build("a", "a", "interpreter", "/a/bin/python", "1.0", "3.11", "digest")
REQUEST = RunRequest(get_framework("python"), BUILD, BUILD, CASES, 1, usual_rounds=usual_rounds(CASES))


def test_every_shard_has_the_rounds_of_the_whole_run() -> None:
    assert usual_rounds(CASES) != usual_rounds(CASES[1:])
    for number, case in enumerate(CASES):
        shard = Shard(number, (case,), 0.5)
        assert shard_configuration(REQUEST, shard, 2).max_rounds == usual_rounds(CASES)
        assert shard_configuration(REQUEST.configured(max_rounds=7), shard, 2).max_rounds == 7


@pytest.mark.parametrize(("share", "hosts", "seconds"), [(0.25, 2, 50.0), (0.25, 8, 100.0), (1.0, 1, 100.0)])
def test_a_host_has_its_time_for_the_shard_and_never_more_than_the_run(
    share: float, hosts: int, seconds: float
) -> None:
    request = REQUEST.configured(time_budget=100.0)
    configuration = shard_configuration(request, Shard(0, tuple(CASES), share), hosts)
    assert configuration.time_budget == seconds
    assert replace(configuration, time_budget=100.0, max_rounds=None) == request.configuration
    assert shard_configuration(REQUEST, Shard(0, tuple(CASES), share), hosts) == RunConfiguration(
        max_rounds=REQUEST.max_rounds
    )
