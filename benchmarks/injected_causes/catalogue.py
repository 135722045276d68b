"""All causes, in the order of their numbers."""

from benchmarks.injected_causes.in_native_code import NATIVE
from benchmarks.injected_causes.in_python_code import PYTHON

CAUSES = (*NATIVE, *PYTHON)
