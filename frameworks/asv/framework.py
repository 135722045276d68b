"""The framework of asv suites."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks.python.framework import Python
from opduel.frameworks.roles import PackageBuilds, Scripts

HERE = Path(__file__).resolve().parent


class Asv(Python):
    """An unchanged suite of benchmarks for asv (airspeed velocity). A build is any environment.

    A build made from requirements gets ``also_required``, too; an environment that the user brings needs the first.
    """

    name = "asv"
    # The second measures mem_*; asv's environments have the third, which suites import without listing it.
    builds = PackageBuilds(also_required=("asv_runner==0.3.2", "pympler==1.1", "packaging"))
    scripts = Scripts(registry=Python.scripts.registry, suite=HERE / "adaptor" / "suite.py")
    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Add ``ASV``, by which suites know that asv runs them."""
        return {**super().environment(threads), "ASV": "true", **self.suite_variables}
