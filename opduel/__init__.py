"""opduel from Python: two builds compared, or operators measured inside a build's own interpreter or from outside.

``compare`` measures two builds against each other, ``local`` a work tree against its base. They and the errors need
opduel's own environment, and are loaded when they are first used. The others measure one build: inside it (operators
are functions) they need the standard library and the framework alone, from Python 3.6 on (``compare`` and ``local`` are
not there before 3.7); from outside (operators are names, and ``build`` says where) they need opduel's own environment.
Examples are in docs/how-to/api.md.
"""

from .benchmarks import OperatorBenchmark, run_benchmark_operator, run_category_benchmarks
from .performance import run_performance_test

__version__ = "0.1.0"

__all__ = [
    "ABReport",
    "OperatorBenchmark",
    "RunError",
    "UsageError",
    "compare",
    "local",
    "run_benchmark_operator",
    "run_category_benchmarks",
    "run_performance_test",
]

# What needs opduel's own environment, and in which module it is.
_LAZY = {"ABReport": "ab", "compare": "ab", "local": "ab", "RunError": "records", "UsageError": "records"}

TYPE_CHECKING = False
if TYPE_CHECKING:  # what type checkers and editors see
    from .ab import ABReport, compare, local
    from .records import RunError, UsageError
else:

    def __getattr__(name):
        """Load what needs more than a build has, on its first use (PEP 562; Python 3.6 never calls this)."""
        if name not in _LAZY:
            raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
        import importlib

        value = getattr(importlib.import_module("." + _LAZY[name], __name__), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted(set(globals()) | set(_LAZY))
