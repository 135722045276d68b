"""PyTorch, as the controller knows it."""

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
    also_required = ("numpy",)  # inputs come from its generator; PyTorch's wheels don't ask for it
    namespaces = {}  # noqa: RUF012 - a constant
    block_namespaces = ("torch.nn",)
    not_operators = ()

    adaptor = HERE / "adaptor"
    registry_script = HERE / "registered.py"
    benchmarks_script = HERE / "operator_benchmark.py"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Threads within an operator; the adaptor calls ``torch.set_num_threads``, too.

        A waiting thread must not take the other side's processors.
        """
        return dict.fromkeys(THREAD_VARIABLES, str(threads))

    def profiling_environment(self) -> Mapping[str, str]:
        """No lines of the profiler's own in a case's output."""
        return {"KINETO_LOG_LEVEL": "99"}

    def logging_environment(self) -> Mapping[str, str]:
        """oneDNN's log, and MKL's."""
        return PRIMITIVE_LOGS

    def memory_environment(self) -> Mapping[str, str]:
        """The same: on a CPU the profiler sees what is allocated."""
        return self.profiling_environment()

    def can_fork(self, threads: int, context: str) -> bool:
        """Always: threads begin in the child, and so does what a GPU is used by. The import needs neither."""
        return True

    def can_be_hybridized(self, operator: str) -> bool:
        """Everything runs eagerly."""
        return False
