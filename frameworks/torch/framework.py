"""The framework PyTorch."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks.base import PRIMITIVE_LOGS, Framework

HERE = Path(__file__).resolve().parent
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # the last one is NumPy's


class Torch(Framework):
    """PyTorch 1.13 and later: functions, methods of tensors, and modules, eager. A build is made from requirements."""

    name = "torch"
    import_name = "torch"
    any_package = True
    also_required = ("numpy",)  # draws the inputs; PyTorch's wheels don't require it
    namespaces = {}  # noqa: RUF012 - a constant
    block_namespaces = ("torch.nn",)
    not_operators = ()

    adaptor = HERE / "adaptor"
    registry_script = HERE / "registered.py"
    benchmarks_script = HERE / "operator_benchmark.py"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Set the threads within an operator; the adaptor calls ``torch.set_num_threads``, too."""
        return dict.fromkeys(THREAD_VARIABLES, str(threads))

    def profiling_environment(self) -> Mapping[str, str]:
        """Silence the profiler's log."""
        return {"KINETO_LOG_LEVEL": "99"}

    def logging_environment(self) -> Mapping[str, str]:
        """Switch on the logs of oneDNN and MKL."""
        return PRIMITIVE_LOGS

    def memory_environment(self) -> Mapping[str, str]:
        """Silence the profiler, which measures memory on processors."""
        return self.profiling_environment()

    def can_fork(self, threads: int, context: str) -> bool:
        """Return True: only the child starts threads and uses the GPU; the import does neither."""
        return True

    def can_be_hybridized(self, operator: str) -> bool:
        """Return False: everything runs eagerly."""
        return False
