"""Functions of any Python package, as the controller knows them."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks.base import Framework

HERE = Path(__file__).resolve().parent
# Thread counts that the libraries below NumPy and its users read when they are loaded.
THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"),
)


class Python(Framework):
    """Public functions, classes and methods of installed packages. A build is any environment."""

    name = "python"
    import_name = None
    any_package = True

    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Threads of the libraries that compute; a waiting thread must not take the other side's processors."""
        return {**dict.fromkeys(THREAD_VARIABLES, str(threads)), "OMP_WAIT_POLICY": "PASSIVE"}

    def can_fork(self, threads: int, context: str) -> bool:
        """Not with more than one thread: the threads of OpenMP and of thread pools don't survive a fork."""
        return threads == 1 and context.startswith("cpu")
