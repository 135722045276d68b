"""Benchmarks of an asv suite, as the controller knows them."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks.python.framework import Python

HERE = Path(__file__).resolve().parent


class Asv(Python):
    """An existing suite of benchmarks for asv (airspeed velocity), unchanged. A build is any environment.

    A build that is made of requirements has these packages, too; one that the user brings needs the first itself.
    """

    name = "asv"
    also_required = ("asv_runner==0.3.2", "pympler==1.1")  # the second finds and measures mem_*
    suite_script = HERE / "adaptor" / "suite.py"

    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> Mapping[str, str]:
        """As for any package; suites ask ``ASV`` whether it is asv that runs them."""
        return {**super().environment(threads), "ASV": "true", **self.suite_variables}
