"""The framework Apache MXNet."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from opduel.frameworks.base import Framework
from opduel.frameworks.mxnet.work import work
from opduel.frameworks.roles import PRIMITIVE_LOGS, Builds, Cases, ProfilingSetup, Scripts
from opduel.records import DEFAULT_MODE, Case, Work

HERE = Path(__file__).resolve().parent
BLOCK_NAMESPACES = (
    *("gluon.nn", "gluon.rnn", "gluon.loss", "gluon.data.vision.transforms"),
    *("gluon.contrib.nn", "gluon.contrib.rnn", "gluon.contrib.cnn"),
)
OBJECT_NAMESPACES = ("metric", "init", "optimizer", "io", "gluon.data")  # classes whose objects are made, then used
GRAPH_NAMESPACES = ("nd", "nd.contrib", "nd.linalg", "nd.random", "nd.image", "nd.sparse", "nd._internal", "np", "npx")


CASES = Cases(
    namespaces={
        "nd": ("contrib", "linalg", "random", "image", "sparse", "op", "_internal", "NDArray"),
        "np": ("linalg", "random", "ndarray"),
        "npx": ("image", "random"),
        "image": (),
        "model_zoo": ("vision",),
        "saved": (),
        "block": (),
        **dict.fromkeys((*BLOCK_NAMESPACES, *OBJECT_NAMESPACES), ()),
    },
    block_namespaces=BLOCK_NAMESPACES,
    graph_namespaces=GRAPH_NAMESPACES,
    not_operators=("load", "load_frombuffer", "save", "savez", "imread", "genfromtxt", "Load"),
    file_arguments={
        "nd.save": "fname",
        "nd.load": "fname",
        "npx.save": "file",
        "npx.load": "file",
        "image.imread": "filename",
    },
    networks=("model_zoo", "saved", "block"),
    network_files={"saved": ("symbol", "params"), "block": ("module",)},
    code_files=("module",),
)


class MXNetProfiling(ProfilingSetup):
    """MXNet's own profiler."""

    def as_profiled(self, case: Case) -> Case:
        """Return the case without hybridized blocks, in which releases before 1.6 report no operators.

        A graph that a backend has rewritten, and an operator that runs as a graph, stay: they run other operators.
        """
        is_network = CASES.is_network(case)
        if is_network or (CASES.is_block(case.operator) and "backend" not in case.inputs):
            case = replace(case, mode=DEFAULT_MODE)
        return replace(case, inputs={**case.inputs, "hybridize": False}) if is_network else case


PROFILING = MXNetProfiling(
    # One operator a time: the profiler sees operators that run in bulk as one. The last two are of hybridized blocks.
    variables=dict.fromkeys(
        (
            *("MXNET_EXEC_BULK_EXEC_INFERENCE", "MXNET_EXEC_BULK_EXEC_TRAIN"),
            *("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN", "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD"),
        ),
        "0",
    ),
    log_variables=PRIMITIVE_LOGS,
    # One workspace, and the engine that runs an operator when it is called. Otherwise MXNet alternates between four
    # workspaces on a CPU, each of which grows when a call needs it
    # (https://github.com/apache/mxnet/blob/1.9.1/src/resource.cc, ResourceTempSpace), and with the threaded engine the
    # peak depends on how far Python runs ahead of the operators.
    memory_variables={"MXNET_CPU_TEMP_COPY": "1", "MXNET_GPU_TEMP_COPY": "1", "MXNET_ENGINE_TYPE": "NaiveEngine"},
    counting_variables={"MXNET_ENGINE_TYPE": "NaiveEngine"},  # runs an operator in the calling thread
    counts_instructions=True,
    # callgrind doesn't see the C functions that ctypes calls.  These do their work, in every release from 1.4 on, and
    # none calls itself or another; "(*)" leaves out their lambdas.
    counted_functions=(
        "mxnet::Imperative::Invoke(*)",
        "mxnet::Imperative::Backward(*)",
        "mxnet::CachedOp::Forward(*)",  # of a hybridized block, whose backward is in the line above
    ),
)


class MXNet(Framework):
    """MXNet 1.4 to 1.9."""

    name = "mxnet"
    builds = Builds(import_name="mxnet")
    cases = CASES
    scripts = Scripts(registry=HERE / "registered.py", network=HERE / "network.py")
    profiling = PROFILING
    adaptor = HERE / "adaptor"

    def environment(self, threads: int) -> Mapping[str, str]:
        """Set the threads, the threaded engine, which users run, and no operator tuning.

        The naive engine isn't quieter, and much noisier for softmax.  Operator tuning measures at import, so that
        processes of one build would run different code.
        """
        count = str(threads)
        # Otherwise OpenCV has no threads in a fork.
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

    def work(self, case: Case) -> Work | None:
        return work(case)

    def can_fork(self, threads: int, context: str) -> bool:
        """Return True on processors: MXNet's fork handler restarts its threads. It also switches OpenMP off, which the
        adaptor undoes if the build allows it (adaptor/openmp.py)."""
        return context.startswith("cpu")
