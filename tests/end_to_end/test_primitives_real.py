"""Which primitives of oneDNN two real releases of MXNet run for the same convolution."""

import pytest

from opduel.causes.collectors.operators import ask_for_operators, operator_observations
from opduel.causes.collectors.primitives import ask_for_primitives, primitive_observations
from opduel.causes.collectors.process_pairs import PAIRS
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework, worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.profiles import Profiling
from opduel.harness.specs import expand_cases, find_spec, load_spec


@pytest.mark.nightly
def test_the_log_of_a_convolution_and_its_operator_on_two_releases() -> None:
    framework = get_framework("mxnet")
    cache = BuildCache()
    builds = {
        "control": resolve_build("mxnet==1.8.0.post0", framework, cache),
        "treatment": resolve_build("mxnet==1.9.1", framework, cache),
    }
    environment = {**worker_environment(), **framework.environment(1)}
    profiling = Profiling(Bench(builds, framework.adaptor, environment, plan_cpus(1)), framework, 1, 1)
    cases = [case for case in expand_cases(load_spec(find_spec("conv"))) if case.id == "conv2d_strided/forward"]
    (log,) = ask_for_primitives(profiling, cases).values()
    observations = primitive_observations(log)
    assert not isinstance(observations, str), observations
    assert len(observations) == PAIRS
    for pair in observations:
        for parts in pair.values():
            (convolution,) = (part for name, part in parts.items() if name.startswith("convolution forward_inference "))
            assert convolution.calls == 1
            assert convolution.implementation
            assert convolution.amount > 0
    (profile,) = ask_for_operators(profiling, cases).values()
    operators = operator_observations(profile)
    assert not isinstance(operators, str), operators
    assert all(set(parts) == {"Convolution"} for pair in operators for parts in pair.values())
