"""What a framework declares besides what runs inside its builds: builds, cases, scripts, and profiling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from opduel.records import Case

# oneDNN since 2.0, 1.x, and before; and MKL. 1: what is executed.
PRIMITIVE_LOGS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE", "MKL_VERBOSE"), "1")
)


@dataclass(frozen=True)
class Builds:
    """Builds are Python environments: releases, environments of the user's, and commits of the framework's repository.

    The class of this role decides how the driver makes builds (driver/builds/resolve.py, builder.py).
    """

    import_name: str | None = None  # what the build's interpreter imports, with __version__; None: nothing
    also_required: Sequence[str] = ()  # requirements of the adaptor, beside those of the build
    suite_required: Sequence[str] = ()  # those of the suite that is measured
    suite_subfolder: str = ""  # where that suite says that the package is in its repository
    suite_build_variables: Mapping[str, str] = field(default_factory=dict)  # of its build script, as that suite says

    has_repository = True  # commits come from the framework's own repository, which its data name
    project = "package"  # what a repository that the user names holds
    request_hint = ""  # how the user may name a build, if there is no default
    request_form = ""  # what such a name is, if it can't be a release


@dataclass(frozen=True)
class PackageBuilds(Builds):
    """Builds are Python environments with any packages: made from requirements, or commits of any package."""

    has_repository = False
    request_hint = ", as package==version, as several requirements in quotes, or as the path of an environment"


@dataclass(frozen=True)
class ProgramBuilds(Builds):
    """Builds are executable files, which workers in opduel's own Python start."""

    has_repository = False
    project = "program"
    request_form = "the path of a program"


@dataclass(frozen=True)
class Cases:
    """Cases call operators in the framework's namespaces."""

    # Where operators live: modules, and those directly within them.
    namespaces: Mapping[str, Sequence[str]] = field(default_factory=dict)
    block_namespaces: Sequence[str] = ()  # namespaces of blocks, which are made first, then called
    graph_namespaces: Sequence[str] = ()  # namespaces whose operators can run as a hybridized graph of one operator
    not_operators: Sequence[str] = ()  # functions in the namespaces that read or write files
    # Of these, functions that can be measured on a temporary file, and the argument that names it.
    file_arguments: Mapping[str, str] = field(default_factory=dict)

    networks: Sequence[str] = ()  # roots of operators that are whole networks
    # Networks that come from files: root -> the files' names in a spec, of which the first is required.
    network_files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    code_files: Sequence[str] = ()  # of these files, those with code, which both builds execute

    has_operators = True  # a case names an operator, which a build may lack
    has_passes = True  # a case has a direction, a context and a mode; ids and reports say them
    usual_dtype = "float32"  # of tensors without a dtype
    discovers_values = False  # a case may stand for all values that it prints in both builds
    variable_hint = "leave it out"  # what to do with a variable of ``--env`` that opduel sets
    # Options that can't be used with these cases -> why, and what to do; {framework} is the framework's name.
    refused_options: ClassVar[Mapping[str, str]] = {
        "program": "is for frameworks of programs, and the spec is for {framework}: use --treatment PATH",
        "command_args": "is for frameworks of programs, and the spec is for {framework}: change the spec",
        "string_map": "is for frameworks of programs, and the spec is for {framework}: change the spec",
    }

    def is_block(self, operator: str) -> bool:
        """Return whether an operator is a block: made first, with weights of its own, and perhaps hybridized."""
        return operator.rpartition(".")[0] in self.block_namespaces

    def can_be_hybridized(self, operator: str) -> bool:
        """Return whether an operator may have the mode ``hybridized``: a block, or one that can run as a graph."""
        return self.is_block(operator) or operator.rpartition(".")[0] in self.graph_namespaces

    def is_network(self, case: Case) -> bool:
        """Return whether the case runs a whole network."""
        return case.operator.partition(".")[0] in self.networks


@dataclass(frozen=True)
class FunctionCases(Cases):
    """Cases call functions of any package by their dotted names, also to make arguments; all are eager."""

    def can_be_hybridized(self, operator: str) -> bool:
        return False


@dataclass(frozen=True)
class ArrayCases(FunctionCases):
    """Cases call functions of any package with arrays of NumPy's dtypes, and are named after their inputs."""

    has_passes = False
    usual_dtype = "float64"


@dataclass(frozen=True)
class CommandCases(Cases):
    """Cases are command lines of a program."""

    has_operators = False
    has_passes = False
    discovers_values = True
    variable_hint = "give a program its own in its spec's env"
    refused_options: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("fuzz", "input_sets"), "a program has no inputs that could be drawn: leave it out"
    )


@dataclass(frozen=True)
class PairedCases(Cases):
    """Cases call an operator of one framework on the control and of another on the treatment."""


@dataclass(frozen=True)
class Scripts:
    """Scripts that a build's interpreter runs by path; each prints a JSON document. None: the framework has none."""

    registry: Path | None = None  # lists the build's operators (driver/catalogue/registry.py)
    network: Path | None = None  # lists the operator calls of a network (driver/catalogue/network.py)
    benchmarks: Path | None = None  # turns the framework's own benchmarks into tests (commands/own_benchmarks.py)
    suite: Path | None = None  # lists a suite's benchmarks, and runs setup_cache (driver/suites/discovery.py)


@dataclass(frozen=True)
class ProfilingSetup:
    """How a framework is profiled and its work counted. Variables are read when the framework starts."""

    # For the framework's own profiler, so that it tells operators apart; for the metric memory, so that a call always
    # needs the same.
    variables: Mapping[str, str] = field(default_factory=dict)
    memory_variables: Mapping[str, str] = field(default_factory=dict)
    log_variables: Mapping[str, str] = field(default_factory=dict)  # make libraries log each primitive that they run
    counting_variables: Mapping[str, str] = field(default_factory=dict)  # let the calling thread do all work
    counts_instructions: bool = False
    # The functions whose instructions count, with those that they call, for callgrind's --toggle-collect. None of them
    # may run within another, or within itself. Without any, whole calls count, with what Python executes in them.
    counted_functions: Sequence[str] = ()

    def as_profiled(self, case: Case) -> Case:
        """Return the case in the form in which the profiler sees each of its operators."""
        return case
