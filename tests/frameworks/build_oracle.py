"""Ask scripts in a build what cases give, beside what MXNet itself gives.

Each script runs in a process of its own, forked from one of the build that has imported the framework: importing MXNet
takes two seconds of processor time.
"""

import atexit
import functools
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from opduel.frameworks import Framework, get_framework, worker_environment
from opduel.records import Build, Case

MXNET = get_framework("mxnet")
ENVIRONMENT = {**worker_environment(), **MXNET.environment(1)}
HERE = Path(__file__).parent
Outputs = list[list[Any]]


def answers_of(
    build: Build,
    script: str,
    questions: Sequence[Any],
    framework: Framework = MXNET,
    threads: int = 1,
    **variables: str,
) -> list[Any]:
    """Return what a script beside this one, run in the build, answers to each question (a case, or other JSON)."""
    environment = {**worker_environment(), **framework.environment(threads), **build.environment, **variables}
    reading, writing = os.pipe()
    with open(reading) as answers, tempfile.TemporaryFile("w+") as asking, tempfile.TemporaryFile("w+") as errors:
        for question in questions:
            print(json.dumps(asdict(question) if isinstance(question, Case) else question), file=asking)
        asking.seek(0)
        _start(build, framework.adaptor, environment, script, (asking.fileno(), writing, errors.fileno()))
        os.close(writing)
        lines = answers.read().splitlines()
        errors.seek(0)
        assert len(lines) == len(questions), errors.read()[-2000:]
    return [json.loads(line) for line in lines]


class BuildOracle:
    """A process of ``outputs_of.py`` in a build. Use as a context manager."""

    def __init__(self, build: Build) -> None:
        its_stdin, asking = os.pipe()
        answering, its_stdout = os.pipe()
        self._requests: IO[str] = open(asking, "w")  # noqa: SIM115
        self._answers: IO[str] = open(answering)  # noqa: SIM115
        quiet = os.open(os.devnull, os.O_WRONLY)
        _start(build, MXNET.adaptor, ENVIRONMENT, "outputs_of.py", (its_stdin, its_stdout, quiet))
        for end in (its_stdin, its_stdout, quiet):
            os.close(end)

    def __enter__(self) -> "BuildOracle":
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._answers.close()

    def ask(self, case: Case, direct: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answers to the adaptor's call ("case") and MXNet's own ("direct"), each from its own process."""
        request = {"case": asdict(case), "numpy": case.operator.startswith("np")}
        if direct is not None:
            request["direct"] = direct
        print(json.dumps(request), file=self._requests, flush=True)
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer

    def outputs(self, case: Case) -> Outputs:
        """Return ``[shape, dtype, storage type]`` of each output of the adaptor's call; of a plain value its type."""
        answer = self.ask(case)["case"]
        assert "outputs" in answer, answer
        outputs: Outputs = answer["outputs"]
        return outputs


def _start(
    build: Build, adaptor: Path, environment: Mapping[str, str], script: str, streams: tuple[int, int, int]
) -> None:
    """Start a script beside this one in a build, with these descriptors as its standard streams."""
    connection = _forking_process(build.interpreter, adaptor, tuple(sorted(environment.items())))
    socket.send_fds(connection, [str(HERE / script).encode()], list(streams))


@functools.cache
def _forking_process(interpreter: str, adaptor: Path, environment: tuple[tuple[str, str], ...]) -> socket.socket:
    """Return the connection to a process of ``build_script.py`` in a build; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [interpreter, str(HERE / "build_script.py"), str(adaptor), str(theirs.fileno())],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
