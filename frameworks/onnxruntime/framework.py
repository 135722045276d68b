"""ONNX Runtime, as the controller knows it."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks.base import Framework

HERE = Path(__file__).resolve().parent


class ONNXRuntime(Framework):
    """ONNX Runtime's CPU provider, by its Python package."""

    name = "onnxruntime"
    import_name = "onnxruntime"
    # The domains of ONNX under names that a spec can say: "" is onnx, ai.onnx.ml is onnx.ml. Models are from files.
    namespaces = {"onnx": ("ml",), "com": ("microsoft", "microsoft.nchwc"), "model": ()}  # noqa: RUF012 - a constant
    networks = ("model",)
    network_files = {"model": ("model",)}  # noqa: RUF012 - a constant
    not_operators = ()
    counts_whole_calls = True  # the library is stripped of the names of its functions

    adaptor = HERE / "adaptor"
    registry_script = HERE / "registered.py"

    def environment(self, threads: int) -> Mapping[str, str]:
        """The session's options that are the same for all cases, which the adaptor reads: a report has them so.

        NumPy makes the inputs, and computes nothing that is timed: it has one thread.
        """
        return {
            "OPDUEL_ORT_THREADS": str(threads),  # intra_op and inter_op
            "OPDUEL_ORT_EXECUTION": "sequential",
            "OPDUEL_ORT_SPINNING": "1",  # ONNX Runtime's own default
            "OPDUEL_ORT_LEVEL_OPERATOR": "disabled",  # the kernel of the operator that the spec names
            "OPDUEL_ORT_LEVEL_MODEL": "all",  # ONNX Runtime's own default
            "ORT_DISABLE_TELEMETRY": "1",  # a thread of its own since 1.29, and events that it sends
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }

    def can_fork(self, threads: int, context: str) -> bool:
        """With any number of threads: the import starts none, and a session is made in the child, with its pool."""
        return context.startswith("cpu")
