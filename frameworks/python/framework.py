"""The framework of functions of any Python package."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opduel.frameworks.base import Framework
from opduel.frameworks.roles import ArrayCases, PackageBuilds, ProfilingSetup, Scripts
from opduel.records import Case

HERE = Path(__file__).resolve().parent
STATEMENT = "statement"  # the operator of code from a command line (opduel_common/statements.py)
IMPORTS = "OPDUEL_IMPORTS"  # modules that a worker imports before it forks (adaptor/__init__.py)
# Packages that are called otherwise than their modules.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "cv2": "opencv-python",
}
# Thread counts that NumPy's libraries, and others like them, read when they are loaded.
THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"),
)


class Python(Framework):
    """Public functions, classes and methods of installed packages. A build is any environment."""

    name = "python"
    builds = PackageBuilds()
    cases = ArrayCases()
    scripts = Scripts(registry=HERE / "registered.py")
    profiling = ProfilingSetup(counts_instructions=True)
    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Set the threads of numerical libraries."""
        return dict.fromkeys(THREAD_VARIABLES, str(threads))

    def preparation(self, cases: Sequence[Case]) -> Mapping[str, str]:
        """List the modules, or classes in them, of all functions that the cases name."""
        functions = [case for case in cases if case.operator != STATEMENT]
        names = {name.rpartition(".")[0] for case in functions for name in (case.operator, *_called(case.inputs))}
        names |= {module for case in cases if case.operator == STATEMENT for module in case.inputs["imports"]}
        return {IMPORTS: ",".join(sorted(names))}

    def packages_of(self, cases: Sequence[Case]) -> Sequence[str]:
        """Return the packages that the cases call or import."""
        modules = dict.fromkeys(name.partition(".")[0] for name in self.preparation(cases)[IMPORTS].split(","))
        return [DISTRIBUTIONS.get(module, module.replace("_", "-").lower()) for module in modules]

    def can_fork(self, threads: int, context: str) -> bool:
        """Return True on processors: modules that start threads which a fork would lose are imported in each child
        (opduel_common.forks), and OpenBLAS stops its threads before a fork."""
        return not context.startswith("gpu")


def _called(value: Any) -> Iterator[str]:
    """Yield the functions and classes that make a case's arguments, and those that are arguments."""
    if isinstance(value, Mapping):
        yield from (value[key] for key in ("call", "function") if isinstance(value.get(key), str))
        if isinstance(value.get("sparse"), str):
            yield f"scipy.sparse.{value['sparse']}"
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _called(item)
