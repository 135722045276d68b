"""The base class of frameworks: what runs inside builds, beside the roles that a framework declares (roles.py)."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

from opduel.frameworks.roles import Builds, Cases, ProfilingSetup, Scripts
from opduel.records import Build, Case, Work
from opduel.records.measurement import Side

SPECIFICATIONS = Path(__file__).resolve().parent.parent / "specifications"
FRAMEWORKS_DIR = SPECIFICATIONS / "frameworks"


class Framework(ABC):
    """Something that can be measured: what makes its builds and cases, what runs inside, and what profiles.

    A new one is a package here and a line in the registry, or a package of its own with an entry point
    (docs/how-to/add-a-framework.md); ``opduel conformance`` tests it.
    """

    name: str  # of specifications/frameworks/<name>/ and of a spec's "framework" field
    builds: Builds = Builds()
    cases: Cases = Cases()
    scripts: Scripts = Scripts()
    profiling: ProfilingSetup = ProfilingSetup()

    calls_in_worker = True  # a call runs in the worker's own process, where valgrind sees it
    has_own_sides = False  # each side of a run has a framework of its own (``of_side``)
    suite_variables: Mapping[str, str] = MappingProxyType({})  # part of ``environment``: those of the measured suite
    unforked = ""  # why cases of several threads aren't forked, if a run found a reason

    def __init__(self, frameworks_dir: Path = FRAMEWORKS_DIR) -> None:
        """``frameworks_dir``: where the data of all frameworks are, each in a folder of its name."""
        self.frameworks_dir = frameworks_dir

    @property
    @abstractmethod
    def adaptor(self) -> Path:
        """The worker-side module, or package: standard library, the framework, and Python 3.6 syntax only."""

    @abstractmethod
    def environment(self, threads: int) -> Mapping[str, str]:
        """Return the fixed environment variables of both sides' workers, for ``threads`` compute threads."""

    @abstractmethod
    def can_fork(self, threads: int, context: str) -> bool:
        """Return whether an operator behaves in a child forked after the import as in the importing process.

        With several threads that depends on the build, too: a run tests it (harness/processes/forking.py).
        """

    def preparation(self, cases: Sequence[Case]) -> Mapping[str, str]:
        """Return variables that tell a worker, before it forks, which cases come; the same for both sides."""
        return {}

    def work(self, case: Case) -> Work | None:
        """Return the least work of a call of the case, or None if it isn't known."""
        return None

    def packages_of(self, cases: Sequence[Case]) -> Sequence[str]:
        """Return the names of the packages that the cases call, where a build may have any."""
        return ()

    def without_forks(self, why: str) -> Self:
        """Return the framework with each case of several threads in a process pair of its own, and the reason."""
        framework, can_fork = copy.copy(self), self.can_fork
        framework.unforked = why
        framework.can_fork = lambda threads, context: threads == 1 and can_fork(threads, context)  # type: ignore[method-assign]
        return framework

    def of_suite(
        self,
        variables: Mapping[str, str],
        requirements: Sequence[str] = (),
        subfolder: str = "",
        build_variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Return the framework with a suite's variables in its ``environment``, and with what a suite says of builds:
        requirements, the package's folder in its repository, and variables of its build script."""
        framework = copy.copy(self)
        framework.suite_variables = variables
        framework.builds = replace(
            self.builds,
            suite_required=tuple(requirements),
            suite_subfolder=subfolder,
            suite_build_variables=build_variables,
        )
        return framework

    def for_cases(self, cases: Sequence[Case]) -> "Framework":
        """Return the framework for these cases. Raise UsageError if they can't be measured in one run."""
        return self

    def of_side(self, side: Side) -> "Framework":
        """Return the framework of a side's builds and operators."""
        return self

    def equipped(self, side: Side, build: Build, threads: int) -> Build:
        """Return the build with the variables that its workers need on that side."""
        return build

    @property
    def specifications(self) -> Path:
        """The folder of data that say how this framework is built: ``specifications/frameworks/<name>``."""
        return self.frameworks_dir / self.name
