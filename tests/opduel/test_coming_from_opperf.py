"""Counterparts of opperf's examples, of docs/how-to/coming-from-opperf.md and opperf_examples, run on MXNet 1.9.1."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from opduel.commands.opduel import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "coming-from-opperf.md").read_text(encoding="utf-8")
EXAMPLES = Path(__file__).parent / "opperf_examples"
VIEWS = EXAMPLES / "profiler_views.py"
INSIDE, OUTSIDE = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
SCRIPTS = [INSIDE, *(path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py")) if path != VIEWS)]
(SHELL,) = re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for line in SHELL.splitlines() if not line.startswith("#")]
# One case of each spec: that the command works is the point.
FEW = {"all": "broadcast_add_small/*", "operators/binary_broadcast": "broadcast_add_small/*", "smoke": "softmax/*"}
LIMIT_S = 300  # against hanging for ever
pytestmark = [pytest.mark.mxnet, pytest.mark.nightly]

# All in one process, each with names of its own: what is printed is told apart by marks.
RUNNER = """
import json, sys
for number, script in enumerate(json.load(open(sys.argv[1]))):
    print("=== {}".format(number), flush=True)
    exec(compile(script, "example {}".format(number), "exec"), {"__name__": "__main__"})
"""


def run(arguments: Sequence[str | Path], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run opduel's command, or a script, in a folder."""
    command = ["env", f"PYTHONPATH={ROOT}", *(f"{name}={value}" for name, value in variables.items())]
    command += [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)


def test_python_inside_a_build(tmp_path: Path) -> None:
    (tmp_path / "scripts.json").write_text(json.dumps(SCRIPTS))
    (tmp_path / "runner.py").write_text(RUNNER)
    finished = run(
        ["-m", "opduel", "python", "mxnet==1.9.1", tmp_path / "runner.py", tmp_path / "scripts.json"], tmp_path
    )
    assert finished.returncode == 0, finished.stderr
    outputs = re.split(r"^=== \d+\n", finished.stdout, flags=re.MULTILINE)[1:]
    assert len(outputs) == len(SCRIPTS)
    for script, output in zip(SCRIPTS, outputs, strict=True):
        assert "failed_forward" not in output, (script, output)
        assert "'avg_time_forward_" in output, script
        assert "'max_storage_mem_alloc_cpu/0'" in output, script
        if "run_backward" in script:
            assert "'avg_time_backward_" in output, script


def test_python_from_outside(tmp_path: Path) -> None:
    finished = run(["-c", OUTSIDE], tmp_path)
    assert finished.returncode == 0, finished.stderr
    ((result,),) = json.loads(finished.stdout.replace("'", '"'))[0].values()
    assert result["avg_time_forward_add"] > 0
    assert result["avg_time_backward_add"] > 0
    assert result["inputs"] == {"lhs": [1024, 1024], "rhs": [1024, 1024]}


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run one after the other in one folder: the last compares with the result of the one before it."""
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS:
        program, script, *arguments = shlex.split(line)
        assert (program, script) == ("python3", "harness.py")
        arguments += ["--rounds", "1", "--operators", FEW[arguments[arguments.index("-b") + 1]]]
        # 1: the last is slower than a moment ago, as this weak way may find on a busy machine
        assert main(arguments, script="harness.py") in ((0, 1) if "--baseline" in line else (0,)), line
        assert capsys.readouterr().out, line
    assert "avg_time_forward_broadcast_add" in (tmp_path / "mxnet_operator_benchmark_results.json").read_text()
    assert "| nd.broadcast_add |" in (tmp_path / "results.md").read_text()
    assert json.loads((tmp_path / "expected.json").read_text())["cases"]


def test_the_views_of_the_profiler(tmp_path: Path) -> None:
    build = ["-m", "opduel", "python", "mxnet==1.9.1"]
    plain = run([*build, VIEWS], tmp_path, DNNL_VERBOSE="1")
    assert plain.returncode == 0, plain.stderr
    assert "MyAddOne::pure_python" in plain.stdout
    assert "MyAddOne::_plus_scalar" in plain.stdout
    assert re.search(r"^dnnl_verbose,exec,cpu,convolution,", plain.stdout, flags=re.MULTILINE)
    events = json.loads((tmp_path / "profile_output.json").read_text())["traceEvents"]
    assert {"MyAddOne::pure_python", "Convolution"} <= {event["name"] for event in events}
    dot = "import mxnet as mx; mx.nd.dot(mx.nd.ones((9, 9)), mx.nd.ones((9, 9))).wait_to_read()"
    assert run([*build, "-c", dot], tmp_path, MXNET_PROFILER_AUTOSTART="1").returncode == 0
    assert '"MXImperativeInvokeEx"' in (tmp_path / "profile.json").read_text()
