#!/usr/bin/env python3
"""Try every command with hostile input: hundreds of random command lines, specs, reports, configs, environments,
programs and outputs.

    .venv/bin/python benchmarks/hostile.py [--count 60] [--seed N] [--kind KIND] [--only NUMBER]

Each command must end with a right exit code, without a traceback or an internal error, in bounded memory and time, with
one line if the usage is wrong, without showing a secret, and without changing a file of others. Problems are printed
with the number by which --only repeats the trial; the exit code is 1 if there are any. No network is used.
"""

import argparse
import contextlib
import importlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.hostile_input.trials import KINDS, SECRETS, WRONG, Trial, draw_trials  # noqa: E402
from benchmarks.hostile_input.world import digests, make_odd, make_precious  # noqa: E402

LOADED = ("commands.opduel", "commands.harness", "commands.repo_driver", "server.command_line")
LONGEST_S = 60.0  # of a trial
MEMORY = 700 * 2**20  # bytes that a trial may allocate beyond those of the libraries
LONGEST_LINE = 1200  # characters of an error
MOST_OUTPUT = 2**20  # bytes
CRASHED = 99  # the exit code of a trial whose main() raised
PYTHONS_WARNING = "Invalid -W option ignored"  # which the interpreter prints before it runs a command
BAD_WORDS = ("Traceback", "internal error", "Exception ignored", "MemoryError", "Fatal Python error")


def main() -> int:
    """Try all chosen trials; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, metavar="N", help="trials of each kind (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random trials (default: 0)")
    parser.add_argument("--kind", choices=list(KINDS), help="this kind alone")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this trial alone, of the same seed and count")
    options = parser.parse_args()
    chosen = [
        (number, trial)
        for number, trial in enumerate(draw_trials(options.seed, options.count))
        if options.kind in (None, trial.kind) and options.only in (None, number)
    ]
    for name in LOADED:
        importlib.import_module(f"opduel.{name}")  # once: each trial is a fork of this process
    tried: Counter[str] = Counter()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        sandbox = Sandbox(Path(folder))
        for number, trial in chosen:
            problems = sandbox.run(trial, random.Random(f"{options.seed}/{number}"))
            tried[trial.kind] += 1
            failures += bool(problems)
            for problem in problems:
                print(f"{number}: {problem}\n    {repr(trial)[:LONGEST_LINE]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in tried.items()), f"tried; {failures} went wrong", sep=" ")
    return 1 if failures else 0


class Sandbox:
    """An empty folder in which trials run, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._precious = folder / "precious"
        make_precious(self._precious)
        self._before = digests(self._precious)

    def run(self, trial: Trial, rng: random.Random) -> list[str]:
        """Run a trial, and return its problems."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="t", ignore_cleanup_errors=True) as scratch:
            outcome = self._run(trial, Path(scratch), rng)
        problems = list(find_problems(trial, *outcome))
        if digests(self._precious) != self._before:
            problems.append("a file of others was changed")
            shutil.rmtree(self._precious)
            make_precious(self._precious)
        return problems

    def _run(self, trial: Trial, scratch: Path, rng: random.Random) -> tuple[int | None, str, str]:
        """Return the exit code (None: it took too long), and the output on both streams."""
        for name in ("home", "config", "state", "cache", "tmp", "work"):
            (scratch / name).mkdir()
        make_odd(scratch / "odd")
        for name, content in trial.files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))

        def fill(text: str) -> str:
            for name, place in (("scratch", scratch), ("odd", scratch / "odd"), ("precious", self._precious)):
                text = text.replace(f"{{{name}}}", str(place))
            return text

        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPDUEL_", "XDG_"))}
        environment |= {f"XDG_{name.upper()}_HOME": str(scratch / name) for name in ("config", "state", "cache")}
        environment["HOME"] = str(scratch / "home")  # which is used if an XDG variable is empty
        environment |= {"TMPDIR": str(scratch / "tmp"), "UV_OFFLINE": "1", "COLUMNS": "80"}
        for name, value in trial.environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = fill(value)
        outputs = scratch / "stdout", scratch / "stderr"
        command = Command(trial, [fill(argument) for argument in trial.arguments], environment, scratch, outputs)
        code = command.run_fresh(rng) if trial.fresh else command.run_forked()
        encoding = (trial.environment.get("PYTHONIOENCODING") or "utf-8").partition(":")[0]
        out, err = (
            path.read_bytes()[:MOST_OUTPUT].decode(encoding, "replace") if path.exists() else "" for path in outputs
        )
        return code, out, err


@dataclass(frozen=True)
class Command:
    """A trial's command, with its folder in place of ``{scratch}`` and so on. Both ways to run it return the exit code,
    or None if it took too long and was killed."""

    trial: Trial
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    outputs: tuple[Path, Path]

    def run_forked(self) -> int | None:
        """Run it in a fork of this process, which has imported everything."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = CRASHED
            with contextlib.suppress(BaseException):
                os.chdir(self.folder)
                self._prepare()
                os.environ.clear()
                os.environ.update(self.environment)
                tempfile.tempdir = None
                sys.argv = [self.trial.script, *self.arguments]
                code = self._call_main()
            os._exit(code)
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            finished_pid, status = os.waitpid(child, os.WNOHANG)
            if finished_pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None

    def run_fresh(self, rng: random.Random) -> int | None:
        """Run it in an interpreter of its own, and send a random signal if the trial has one."""
        is_module = not self.trial.script.endswith(".py")
        script = ["-m", self.trial.script] if is_module else [str(ROOT / self.trial.script)]
        command = [os.fsencode(part) for part in (sys.executable, *script, *self.arguments)]
        folder = ROOT if is_module else self.folder
        process = subprocess.Popen(command, env=self.environment, cwd=folder, preexec_fn=self._prepare)
        if self.trial.signal_after_s is not None:
            while process.poll() is None and not _handles_signals(process.pid):
                time.sleep(0.001)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.trial.signal_after_s)
            process.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
        try:
            return process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None

    def _call_main(self) -> int:
        is_server = self.trial.script == "opduel.server"
        command = importlib.import_module("opduel.server.command_line" if is_server else "opduel.commands.opduel")
        try:
            code = command.main(list(self.arguments), *([] if is_server else [self.trial.script]))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
            code = CRASHED
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        return code

    def _prepare(self) -> None:
        """Give the child a session of its own, redirect its standard streams, and limit memory and file sizes."""
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for descriptor, (kind, path) in enumerate(zip(self.trial.outputs, self.outputs, strict=True), start=1):
            if kind == "closed":
                os.close(descriptor)
            elif kind == "no reader":
                read_end, write_end = os.pipe()
                os.close(read_end)
                os.dup2(write_end, descriptor)
            else:
                target = "/dev/full" if kind == "full" else str(path)
                os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        most = (4 * 2**30 if self.trial.fresh else size) + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self.trial.file_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.trial.file_limit, self.trial.file_limit))


def _handles_signals(pid: int) -> bool:
    """Return whether the process has come to the command's first lines: it blocks SIGTERM, or handles it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(("SigBlk:", "SigCgt:")) and int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
                return True
    return False


def find_problems(trial: Trial, code: int | None, out: str, err: str) -> Iterator[str]:
    """Yield the problems of an exit code (None: the command took too long) and of the output."""
    if code is None:
        yield f"still runs after {LONGEST_S:g} s"
    elif code not in trial.expected:
        yield f"exit code {code}: {(err or out)[-300:]!r}"
    for words in BAD_WORDS:
        if words in out + err:
            yield f"prints {words!r}: {err[-300:]!r}"
    lines = [line for line in err.splitlines() if not line.startswith(PYTHONS_WARNING)]
    # A config's defaults are listed first; a signal may come in the middle of anything.
    is_alone = trial.kind not in ("config", "signal")
    if code == WRONG and is_alone and trial.outputs[1] == "file" and trial.file_limit is None and len(lines) != 1:
        yield f"reports wrong usage in {len(lines)} lines: {err[:300]!r}"
    if any(len(line) > LONGEST_LINE for line in lines):
        yield f"prints a line of {max(map(len, lines))} characters"
    if len(err) >= MOST_OUTPUT:
        yield "prints more than anybody reads"
    if any(secret in out + err for secret in SECRETS):
        yield f"shows a secret: {err[-300:]!r}"


if __name__ == "__main__":
    sys.exit(main())
