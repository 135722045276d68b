"""opduel from Python: operators measured inside a build's own interpreter, or in a build driven from outside.

Inside (operators are functions) this needs the standard library and the framework alone, from Python 3.6 on. From
outside (operators are names, and ``build`` says where) it needs opduel's own environment. Examples are in
docs/how-to/api.md.
"""

from .benchmarks import OperatorBenchmark, run_benchmark_operator, run_category_benchmarks
from .performance import run_performance_test

__version__ = "0.1.0"

__all__ = ["OperatorBenchmark", "run_benchmark_operator", "run_category_benchmarks", "run_performance_test"]
