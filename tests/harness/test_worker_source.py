"""What runs inside a build: Python 3.6 syntax and the standard library, nothing else."""

import ast
import sys
from pathlib import Path

import pytest
import vermin

from opduel.harness.conformance.subject import WRAPPER
from opduel.harness.processes.process import WORKER
from opduel.harness.rounds.instructions import SCRIPT

SERVING = WORKER.with_name("serving.py")
BESIDE = sorted({*WORKER.parent.glob("*.py")} - {WORKER, SERVING})
ROOT = Path(__file__).resolve().parent.parent.parent
COMMON = [*ROOT.glob("frameworks/common/opduel_common/*.py")]
ADAPTORS = sorted(
    [
        *ROOT.glob("frameworks/*/adaptor/*.py"),
        *ROOT.glob("frameworks/mxnet/[nor]*.py"),
        *ROOT.glob("frameworks/*/registered.py"),
        *ROOT.glob("frameworks/torch/operator_benchmark.py"),
        *COMMON,
    ]
)
INSIDE = [ROOT / "opduel" / f"{name}.py" for name in ("__init__", "performance", "inside", "benchmarks")]
ALLOWED = {
    "asv": {"asv_runner"},
    "pytest": {"pytest", "_pytest", "pytest_benchmark", "aspectlib", "opduel_adaptor"},
    "mxnet": {"mxnet", "numpy", "benchmark", "registered"},  # opperf itself, and the script beside network.py
    "python": {"numpy"},
    "torch": {"torch", "numpy"},
    "onnxruntime": {"numpy", "onnx", "onnxruntime"},
    "generic": set(),
    "common": {"numpy", "scipy"},
    "cross": set(),
}
IN_OUR_PYTHON = {"generic"}  # these run programs, and not in a build's interpreter


def imports(source: str) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add("" if node.level else (node.module or "").partition(".")[0])
    return modules - {""}  # the package's own


def test_there_is_something_to_check() -> None:
    assert WORKER.is_file()
    assert ADAPTORS


def test_what_starts_quickly_loads_nothing_slow() -> None:
    loaded = set().union(*(imports(path.read_text()) for path in (WORKER, SERVING, WORKER.with_name("timing.py"))))
    assert "json" in loaded
    assert not loaded & {"argparse", "shutil", "subprocess", "tempfile", "inspect", "logging"}


@pytest.mark.parametrize(
    "path",
    [WORKER, SERVING, SCRIPT, WRAPPER, *BESIDE, *ADAPTORS, *INSIDE],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_runs_on_python_3_6(path: Path) -> None:
    config = vermin.Config()
    config.set_eval_annotations(True)
    config.add_backport("argparse")
    ours = path.parent.parent.name in IN_OUR_PYTHON
    source = path.read_text() if ours else without_guarded(path.read_text())
    assert vermin.visit(source, config=config).minimum_versions()[-1] <= ((3, 11) if ours else (3, 6))


def without_guarded(source: str) -> str:
    """The source without the names of later Pythons that it looks for with hasattr before it uses them."""
    for name in ("time.perf_counter_ns", "gc.freeze()", "os.register_at_fork", "sys.stdlib_module_names"):
        assert (
            f'hasattr({name.partition(".")[0]}, "{name.partition(".")[2].rstrip("()")}")' in source
            or name not in source
        )
        source = source.replace(name, "None")
    return source


def test_the_check_can_fail() -> None:
    config = vermin.Config()
    assert vermin.visit("if (n := 3):\n    pass\n", config=config).minimum_versions()[-1] > (3, 6)


def test_the_worker_imports_the_standard_library_alone() -> None:
    scripts = (WORKER, SERVING, SCRIPT, WRAPPER, *BESIDE)
    own = {"opduel_common", *(f"opduel_{path.stem}" for path in scripts)}
    assert set().union(*(imports(path.read_text()) for path in scripts)) <= sys.stdlib_module_names | own


def test_what_is_imported_into_a_build_imports_the_standard_library_alone() -> None:
    assert set().union(*(imports(path.read_text()) for path in INSIDE)) <= sys.stdlib_module_names


@pytest.mark.parametrize("path", ADAPTORS, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_adaptor_imports_its_framework_and_the_standard_library(path: Path) -> None:
    assert (
        imports(path.read_text())
        <= sys.stdlib_module_names | {"opduel_common"} | ALLOWED[path.relative_to(ROOT).parts[1]]
    )
