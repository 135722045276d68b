"""The framework ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks.base import Framework
from opduel.frameworks.roles import Builds, Cases, ProfilingSetup, Scripts

HERE = Path(__file__).resolve().parent


class ONNXRuntime(Framework):
    """ONNX Runtime's CPU provider, through its Python package."""

    name = "onnxruntime"
    builds = Builds(import_name="onnxruntime")
    cases = Cases(
        # Domains of ONNX by the names that specs use: onnx for "", onnx.ml for ai.onnx.ml. Models come from files.
        namespaces={"onnx": ("ml",), "com": ("microsoft", "microsoft.nchwc"), "model": ()},
        networks=("model",),
        network_files={"model": ("model",)},
    )
    scripts = Scripts(registry=HERE / "registered.py")
    profiling = ProfilingSetup(counts_instructions=True)  # of whole calls: the library has no names of functions
    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Return the session options that all cases share, as variables so that a report shows them.

        NumPy, which only makes the inputs, has one thread.
        """
        return {
            "OPDUEL_ORT_THREADS": str(threads),  # intra_op and inter_op
            "OPDUEL_ORT_EXECUTION": "sequential",
            "OPDUEL_ORT_SPINNING": "1",  # ONNX Runtime's own default
            "OPDUEL_ORT_LEVEL_OPERATOR": "disabled",  # the kernel of the operator that the spec names
            "OPDUEL_ORT_LEVEL_MODEL": "all",  # ONNX Runtime's own default
            "ORT_DISABLE_TELEMETRY": "1",  # since 1.29 a thread that sends events
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }

    def can_fork(self, threads: int, context: str) -> bool:
        """Return True on processors: the import starts no threads, and the child makes its session and its pool."""
        return context.startswith("cpu")
