"""The base class through which driver and harness know a framework."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

from opduel.records import Build, Case, Work
from opduel.records.measurement import Side

SPECIFICATIONS = Path(__file__).resolve().parent.parent / "specifications"
FRAMEWORKS_DIR = SPECIFICATIONS / "frameworks"
# oneDNN since 2.0, 1.x, and before; and MKL. 1: what is executed.
PRIMITIVE_LOGS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE", "MKL_VERBOSE"), "1")
)


class Framework(ABC):
    """What can be measured: what a build is, what its operators are called, and the adaptor that calls them.

    A new one is one new package here and one line in the registry, or a package of its own with an entry point
    (docs/how-to/add-a-framework.md); ``opduel conformance`` tests it.
    """

    name: str  # as in specifications/frameworks/<name>/ and in a spec's "framework" field
    import_name: str | None  # what the build's interpreter imports, with __version__; None: any environment is a build
    # Operators are functions of whatever packages a build has, by their dotted names, and calls of such functions make
    # arguments; a build may be asked for by requirements.  ``namespaces`` is empty then.
    any_package: bool = False
    also_required: Sequence[str] = ()  # requirements of the adaptor, beside what a build is asked for
    # A build is an executable file, which workers of opduel's own Python run; a case is a command line that runs it.
    programs: bool = False
    # Where operators live: modules, and those directly within them.
    namespaces: Mapping[str, Sequence[str]] = MappingProxyType({})
    block_namespaces: Sequence[str] = ()  # those of them that hold blocks: made first, then called
    not_operators: Sequence[str] = ()  # functions in those namespaces that read or write files instead of computing
    # Those of them that can be measured all the same, on a temporary file: which of their arguments says the file.
    file_arguments: Mapping[str, str] = MappingProxyType({})
    graph_namespaces: Sequence[str] = ()  # those whose operators can be run as a graph of one operator: hybridized
    # Functions whose instructions are counted, those that they call included, as callgrind's --toggle-collect takes
    # them.  None of them may run within another, or within itself.  None: instructions can't be counted.
    counted_functions: Sequence[str] = ()
    # Instead: the instructions of whole calls are counted, with what Python itself executes in them.
    counts_whole_calls: bool = False

    # Roots of operators that are whole networks.
    networks: Sequence[str] = ()
    # Those of them that come from files: what the files are called in a spec, the first of them needed.
    network_files: Mapping[str, Sequence[str]] = MappingProxyType({})
    # Those of these files that are code, which both builds execute.
    code_files: Sequence[str] = ()

    # Scripts that are run in a build: one that prints what operators it has (driver/catalogue/registry.py), and one
    # that prints the operator calls of a network (driver/catalogue/network.py).
    registry_script: Path | None = None
    network_script: Path | None = None
    # Another, which executes the framework's own benchmarks and prints them as tests (commands/own_benchmarks.py).
    benchmarks_script: Path | None = None
    # One that prints the benchmarks of a suite, and runs its setup_cache (driver/suites/discovery.py); None: cases come
    # from specs alone.
    suite_script: Path | None = None
    suite_variables: Mapping[str, str] = MappingProxyType({})  # part of ``environment``: those of the suite that is run

    def __init__(self, frameworks_dir: Path = FRAMEWORKS_DIR) -> None:
        """``frameworks_dir``: where the data of all frameworks are, each in a folder of its name."""
        self.frameworks_dir = frameworks_dir

    # Each side of a run has a framework of its own, and a case an operator of either.
    two_sided: bool = False
    unforked: str = ""  # why no case of several threads is forked, if that was found on a run's builds

    @property
    @abstractmethod
    def adaptor(self) -> Path:
        """The worker-side module, or package: standard library, the framework, and Python 3.6 syntax only."""

    @abstractmethod
    def environment(self, threads: int) -> Mapping[str, str]:
        """The fixed environment variables that both sides' workers get, for ``threads`` compute threads."""

    @abstractmethod
    def can_fork(self, threads: int, context: str) -> bool:
        """Whether an operator behaves in a child forked after the import as in the importing process itself.

        With several threads that depends on the build, too: a run finds it out (harness/forking.py).
        """

    def without_forks(self, why: str) -> Self:
        """The framework with every case of several threads in a process pair of its own; ``why``: what was found."""
        framework, can_fork = copy.copy(self), self.can_fork
        framework.unforked = why
        framework.can_fork = lambda threads, context: threads == 1 and can_fork(threads, context)  # type: ignore[method-assign]
        return framework

    def of_suite(self, variables: Mapping[str, str], requirements: Sequence[str] = ()) -> Self:
        """The framework with further variables in its ``environment``, and further requirements, which belong to a
        suite."""
        framework = copy.copy(self)
        framework.suite_variables = variables
        framework.also_required = (*self.also_required, *requirements)
        return framework

    def for_cases(self, cases: Sequence[Case]) -> "Framework":
        """The framework as it measures these cases. Raises UsageError: they can't be measured in one run."""
        return self

    def of_side(self, side: Side) -> "Framework":
        """The framework whose builds and operators a side has."""
        return self

    def equipped(self, side: Side, build: Build, threads: int) -> Build:
        """The build as its workers need it on that side, with further variables."""
        return build

    def is_block(self, operator: str) -> bool:
        """Whether a spec's operator is a block: made first, with weights of its own, and perhaps hybridized."""
        return operator.rpartition(".")[0] in self.block_namespaces

    def can_be_hybridized(self, operator: str) -> bool:
        """Whether a spec's operator may be of the mode ``hybridized``: a block, or one that can be run as a graph."""
        return self.is_block(operator) or operator.rpartition(".")[0] in self.graph_namespaces

    def counting_environment(self) -> Mapping[str, str]:
        """What counting needs beyond ``environment(1)``: all work done by the thread that calls."""
        return {}

    def preparation(self, cases: Sequence[Case]) -> Mapping[str, str]:
        """Variables that tell a worker, before it forks, what it will be asked for; the same for both sides."""
        return {}

    def work(self, case: Case) -> Work | None:
        """What a call of the case can't do without; None where that isn't known."""
        return None

    def is_network(self, case: Case) -> bool:
        """Whether it is a whole network that the case runs."""
        return case.operator.partition(".")[0] in self.networks

    def profiling_environment(self) -> Mapping[str, str]:
        """What the framework's own profiler needs so that it tells operators apart; read when the framework starts."""
        return {}

    def logging_environment(self) -> Mapping[str, str]:
        """What makes the libraries that the framework is built with log each primitive that they run; nothing where
        there are none that can."""
        return {}

    def memory_environment(self) -> Mapping[str, str]:
        """What workers that measure ``memory`` need, so that a call always needs the same; read when the framework
        starts."""
        return {}

    def as_profiled(self, case: Case) -> Case:
        """The case in the form in which each of its operators can be seen."""
        return case

    @property
    def specifications(self) -> Path:
        """The folder of data that says how this framework is built: ``specifications/frameworks/<name>``."""
        return self.frameworks_dir / self.name
