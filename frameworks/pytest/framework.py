"""The framework of tests for pytest-benchmark and pytest-codspeed."""

from pathlib import Path

from opduel.frameworks.python.framework import Python
from opduel.frameworks.roles import PackageBuilds, Scripts

HERE = Path(__file__).resolve().parent


class Pytest(Python):
    """Unchanged tests that use the fixture ``benchmark``, or its mark. A build is any environment.

    A build made from requirements gets ``also_required``, too; an environment that the user brings needs the first.
    """

    name = "pytest"
    # Of pytest-benchmark a suite may use options, hooks and names; its fixture is ours.
    builds = PackageBuilds(also_required=("pytest>=7", "pytest-benchmark>=4"))
    scripts = Scripts(registry=Python.scripts.registry, suite=HERE / "adaptor" / "suite.py")
    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> dict[str, str]:
        """Add the suite's variables."""
        return {**super().environment(threads), **self.suite_variables}
