"""Every counterpart in docs/how-to/coming-from-opperf.md, taken from the page and run on MXNet 1.9.1."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from opduel.commands.harness import main

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "how-to" / "coming-from-opperf.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
INSIDE = [block for block in PYTHON if "build=" not in block]
OUTSIDE = [block for block in PYTHON if "build=" in block]
SHELL = re.findall(r"^```sh\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
(EXAMPLE,) = re.findall(r"^```py\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
(VIEWS,) = re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in SHELL for line in block.splitlines()]
# One case of each spec: that the command works is the point.
FEW = {"all": "broadcast_add_small/*", "operators/binary_broadcast": "broadcast_add_small/*", "smoke": "softmax/*"}
LIMIT_S = 300  # against hanging for ever
pytestmark = pytest.mark.mxnet

# All in one process, each with names of its own: what is printed is told apart by marks.
RUNNER = """
import json, sys
for number, block in enumerate(json.load(open(sys.argv[1]))):
    print("=== {}".format(number), flush=True)
    exec(compile(block, "example {}".format(number), "exec"), {"__name__": "__main__"})
"""


def run(arguments: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, arguments)), cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)


def test_nothing_is_left_out() -> None:
    assert (len(INSIDE), len(OUTSIDE), len(COMMANDS)) == (16, 1, 9)


@pytest.mark.nightly
def test_python_inside_a_build(tmp_path: Path) -> None:
    (tmp_path / "blocks.json").write_text(json.dumps(INSIDE))
    (tmp_path / "runner.py").write_text(RUNNER)
    environment = ["env", f"PYTHONPATH={ROOT}"]
    command = [*environment, sys.executable, "-m", "opduel", "mxnet==1.9.1"]
    done = run([*command, tmp_path / "runner.py", tmp_path / "blocks.json"], tmp_path)
    assert done.returncode == 0, done.stderr
    printed = re.split(r"^=== \d+\n", done.stdout, flags=re.MULTILINE)[1:]
    assert len(printed) == len(INSIDE)
    for block, text in zip(INSIDE, printed, strict=True):
        assert "failed_forward" not in text, (block, text)
        assert text.strip(), block
        if "OperatorBenchmark" not in block:
            assert "'avg_time_forward_" in text, block
            assert "'max_storage_mem_alloc_cpu/0'" in text, block
        if "run_backward=True" in block:
            assert "'avg_time_backward_" in text, block


@pytest.mark.parametrize("block", OUTSIDE)
@pytest.mark.nightly
def test_python_from_outside(block: str, tmp_path: Path) -> None:
    done = run(["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", block], tmp_path)
    assert done.returncode == 0, done.stderr
    ((result,),) = json.loads(done.stdout.replace("'", '"'))[0].values()
    assert result["avg_time_forward_add"] > 0
    assert result["avg_time_backward_add"] > 0
    assert result["inputs"] == {"lhs": [1024, 1024], "rhs": [1024, 1024]}


def measured(lines: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run commands one after the other, in the working folder."""
    for line in lines:
        program, script, *arguments = shlex.split(line)
        assert (program, script) == ("python3", "harness.py")
        arguments += ["--rounds", "1", "--operators", FEW[arguments[arguments.index("-b") + 1]]]
        # 1: the last is slower than a moment ago, as this weak way may find on a busy machine
        assert main(arguments) in ((0, 1) if "--baseline" in line else (0,)), line
        assert capsys.readouterr().out, line


@pytest.mark.nightly  # each is a command of opduel that its own tests run
def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What opperf's first example gives, and a comparison with an earlier result."""
    monkeypatch.chdir(tmp_path)
    lines = [line for line in COMMANDS if re.search(r"operator_benchmark_results|expected\.json", line)]
    assert len(lines) == 3
    measured(lines, capsys)
    assert "avg_time_forward_broadcast_add" in (tmp_path / "mxnet_operator_benchmark_results.json").read_text()
    assert json.loads((tmp_path / "expected.json").read_text())["cases"]


@pytest.mark.nightly  # test_single_build.py has --profiler native, test_readme.py a table in Markdown
def test_the_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    measured([line for line in COMMANDS if not re.search(r"operator_benchmark_results|expected\.json", line)], capsys)
    assert "| nd.broadcast_add |" in (tmp_path / "results.md").read_text()


@pytest.mark.nightly  # tests/frameworks/test_mxnet_profiler.py reads these events
def test_the_profiler_s_own_views(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE)
    opduel = f"env PYTHONPATH={ROOT} {sys.executable} -m opduel"
    plain, started, logging = (
        run(["sh", "-c", line.replace(".venv/bin/python -m opduel", opduel)], tmp_path) for line in VIEWS.splitlines()
    )
    assert [done.returncode for done in (plain, started, logging)] == [0, 0, 0], plain.stderr
    assert "MyAddOne::pure_python" in plain.stdout
    assert "MyAddOne::_plus_scalar" in plain.stdout
    events = json.loads((tmp_path / "profile_output.json").read_text())["traceEvents"]
    assert {"MyAddOne::pure_python", "Convolution"} <= {event["name"] for event in events}
    assert '"MXImperativeInvokeEx"' in (tmp_path / "profile.json").read_text()
    log = (tmp_path / "dnnl_verbose.log").read_text().splitlines()
    assert any(line.startswith("dnnl_verbose,exec,cpu,convolution,") for line in log)
