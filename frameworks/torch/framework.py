"""The framework PyTorch."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks.base import Framework
from opduel.frameworks.roles import PRIMITIVE_LOGS, FunctionCases, PackageBuilds, ProfilingSetup, Scripts

HERE = Path(__file__).resolve().parent
QUIET_PROFILER = {"KINETO_LOG_LEVEL": "99"}  # on processors it also measures memory
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # the last one is NumPy's


class Torch(Framework):
    """PyTorch 1.13 and later: functions, methods of tensors, and modules, eager. A build is made from requirements."""

    name = "torch"
    # NumPy draws the inputs; PyTorch's wheels don't require it.
    builds = PackageBuilds(import_name="torch", also_required=("numpy",))
    cases = FunctionCases(block_namespaces=("torch.nn",))
    scripts = Scripts(registry=HERE / "registered.py", benchmarks=HERE / "operator_benchmark.py")
    profiling = ProfilingSetup(variables=QUIET_PROFILER, log_variables=PRIMITIVE_LOGS, memory_variables=QUIET_PROFILER)
    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Set the threads within an operator; the adaptor calls ``torch.set_num_threads``, too."""
        return dict.fromkeys(THREAD_VARIABLES, str(threads))

    def can_fork(self, threads: int, context: str) -> bool:
        """Return True: only the child starts threads and uses the GPU; the import does neither."""
        return True
