"""Ask a script in a build what cases give, beside what MXNet itself gives."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opduel.frameworks import get_framework, worker_environment
from opduel.records import Build, Case

MXNET = get_framework("mxnet")
ENVIRONMENT = {**worker_environment(), **MXNET.environment(1)}
Outputs = list[list[Any]]


class BuildOracle:
    """A process of ``outputs_of.py`` in a build. Use as a context manager."""

    def __init__(self, build: Build) -> None:
        script = Path(__file__).with_name("outputs_of.py")
        self._process = subprocess.Popen(
            [build.interpreter, str(script), str(MXNET.adaptor)],
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
