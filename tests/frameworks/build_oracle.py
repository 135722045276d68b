"""Ask scripts in a build what cases give, beside what MXNet itself gives."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opduel.frameworks import Framework, get_framework, worker_environment
from opduel.records import Build, Case

MXNET = get_framework("mxnet")
ENVIRONMENT = {**worker_environment(), **MXNET.environment(1)}
Outputs = list[list[Any]]


def command_of(build: Build, script: str, framework: Framework = MXNET) -> list[str]:
    return [build.interpreter, str(Path(__file__).with_name(script)), str(framework.adaptor)]


def answers_of(
    build: Build,
    script: str,
    questions: Sequence[Any],
    framework: Framework = MXNET,
    threads: int = 1,
    **variables: str,
) -> list[Any]:
    """Return what a script beside this one, run in the build, answers to each question (a case, or other JSON)."""
    lines = [json.dumps(asdict(question) if isinstance(question, Case) else question) for question in questions]
    process = subprocess.run(
        command_of(build, script, framework),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env={**worker_environment(), **framework.environment(threads), **build.environment, **variables},
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return [json.loads(line) for line in process.stdout.splitlines()]


class BuildOracle:
    """A process of ``outputs_of.py`` in a build. Use as a context manager."""

    def __init__(self, build: Build) -> None:
        self._process = subprocess.Popen(
            command_of(build, "outputs_of.py"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=ENVIRONMENT,
        )

    def __enter__(self) -> "BuildOracle":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def ask(self, case: Case, direct: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answers to the adaptor's call ("case") and MXNet's own ("direct"), each from its own process."""
        request = {"case": asdict(case), "numpy": case.operator.startswith("np")}
        if direct is not None:
            request["direct"] = direct
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def outputs(self, case: Case) -> Outputs:
        """Return ``[shape, dtype, storage type]`` of each output of the adaptor's call; of a plain value its type."""
        answer = self.ask(case)["case"]
        assert "outputs" in answer, answer
        outputs: Outputs = answer["outputs"]
        return outputs
