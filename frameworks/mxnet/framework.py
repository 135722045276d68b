"""Apache MXNet, as the controller knows it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from opduel.frameworks.base import PRIMITIVE_LOGS, Framework
from opduel.frameworks.mxnet.work import work
from opduel.records import DEFAULT_MODE, Case, Work

HERE = Path(__file__).resolve().parent
BLOCK_NAMESPACES = (
    *("gluon.nn", "gluon.rnn", "gluon.loss", "gluon.data.vision.transforms"),
    *("gluon.contrib.nn", "gluon.contrib.rnn", "gluon.contrib.cnn"),
)
OBJECT_NAMESPACES = ("metric", "init", "optimizer", "io", "gluon.data")  # of classes: made first, then used
GRAPH_NAMESPACES = ("nd", "nd.contrib", "nd.linalg", "nd.random", "nd.image", "nd.sparse", "nd._internal", "np", "npx")


class MXNet(Framework):
    """MXNet 1.4 to 1.9."""

    name = "mxnet"
    import_name = "mxnet"
    namespaces = {  # noqa: RUF012 - a constant
        "nd": ("contrib", "linalg", "random", "image", "sparse", "op", "_internal", "NDArray"),
        "np": ("linalg", "random", "ndarray"),
        "npx": ("image", "random"),
        "image": (),
        "model_zoo": ("vision",),
        "saved": (),
        "block": (),
        **dict.fromkeys((*BLOCK_NAMESPACES, *OBJECT_NAMESPACES), ()),
    }
    block_namespaces = BLOCK_NAMESPACES
    graph_namespaces = GRAPH_NAMESPACES
    networks = ("model_zoo", "saved", "block")
    network_files = {"saved": ("symbol", "params"), "block": ("module",)}  # noqa: RUF012 - a constant
    code_files = ("module",)
    not_operators = ("load", "load_frombuffer", "save", "savez", "imread", "genfromtxt", "Load")
    file_arguments = {  # noqa: RUF012 - a constant
        "nd.save": "fname",
        "nd.load": "fname",
        "npx.save": "file",
        "npx.load": "file",
        "image.imread": "filename",
    }
    # The C functions themselves are not seen: callgrind takes what ctypes calls for a part of libffi.  These do
    # their work, in every release from 1.4 on, and none calls itself or another; "(*)" leaves out their lambdas.
    counted_functions = (
        "mxnet::Imperative::Invoke(*)",
        "mxnet::Imperative::Backward(*)",
        "mxnet::CachedOp::Forward(*)",  # of a hybridized block; its backward is in the one above
    )

    adaptor = HERE / "adaptor"
    registry_script = HERE / "registered.py"
    network_script = HERE / "network.py"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Threads, engine and operator tuning.

        The threaded engine is what users run; the naive one is no quieter on the whole, and much noisier for softmax
        (docs/explanation/statistics.md).  Operator tuning measures at import, so that processes of one build would
        differ in what they run: it is off.
        """
        count = str(threads)
        # In a fork OpenCV has no threads, unless this says how many.
        forked = {"MXNET_MP_OPENCV_NUM_THREADS": count} if threads > 1 else {}
        return {
            **forked,
            "MXNET_ENGINE_TYPE": "ThreadedEnginePerDevice",
            "MXNET_USE_OPERATOR_TUNING": "0",
            "MXNET_CPU_WORKER_NTHREADS": "1",
            "OMP_NUM_THREADS": count,
            "OPENBLAS_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
        }

    def counting_environment(self) -> Mapping[str, str]:
        """The engine that runs an operator in the thread that calls it."""
        return {"MXNET_ENGINE_TYPE": "NaiveEngine"}

    def work(self, case: Case) -> Work | None:
        return work(case)

    def profiling_environment(self) -> Mapping[str, str]:
        """One operator a time: MXNet runs several in bulk otherwise, and its profiler sees them as one."""
        switches = "MXNET_EXEC_BULK_EXEC_INFERENCE", "MXNET_EXEC_BULK_EXEC_TRAIN"
        sizes = "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN", "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD"  # of hybridized blocks
        return dict.fromkeys([*switches, *sizes], "0")

    def logging_environment(self) -> Mapping[str, str]:
        """oneDNN's log, and MKL's."""
        return PRIMITIVE_LOGS

    def memory_environment(self) -> Mapping[str, str]:
        """One workspace, and the engine that runs an operator when it is called.

        MXNet takes turns with four workspaces on a CPU, each of which a later call makes as large as it needs
        (https://github.com/apache/mxnet/blob/1.9.1/src/resource.cc, ResourceTempSpace).  With the threaded engine it
        is a matter of luck how far Python runs ahead of the operators, and what is held at once.
        """
        return {"MXNET_CPU_TEMP_COPY": "1", "MXNET_GPU_TEMP_COPY": "1", "MXNET_ENGINE_TYPE": "NaiveEngine"}

    def as_profiled(self, case: Case) -> Case:
        """No block hybridized: of a network that is, releases before 1.6 tell of no operator at all.

        But for one that a backend has rewritten, and an operator that runs as a graph: these are other operators.
        """
        if self.is_network(case) or (self.is_block(case.operator) and "backend" not in case.inputs):
            case = replace(case, mode=DEFAULT_MODE)
        return replace(case, inputs={**case.inputs, "hybridize": False}) if self.is_network(case) else case

    def can_fork(self, threads: int, context: str) -> bool:
        """Not on a GPU. MXNet's own fork handler stops its threads and begins them again; it switches OpenMP off, which
        the adaptor undoes where the build lets it (adaptor/openmp.py)."""
        return context.startswith("cpu")
