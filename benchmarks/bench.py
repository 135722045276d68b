"""What scripts that measure by themselves share: a build on both sides, and the cases of a spec."""

from pathlib import Path

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework, worker_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Case
from opduel.records.measurement import SIDES

ROOT = Path(__file__).resolve().parent.parent


def make_bench(build: str, spec_name: str) -> tuple[Bench, list[Case]]:
    """Return a bench with one build on both sides, and the spec's cases.

    Raises:
        OpduelError: as harness.py does.
    """
    spec = load_spec(find_spec(spec_name))
    framework = get_framework(spec.framework)
    builds = dict.fromkeys(SIDES, resolve_build(build, framework, BuildCache()))
    environment = {**worker_environment(), **framework.environment(1)}
    return Bench(builds, framework.adaptor, environment, plan_cpus(1)), expand_cases(spec)
