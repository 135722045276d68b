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
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from forked import Forked  # noqa: E402

from benchmarks.hostile_input.trials import KINDS, SECRETS, WRONG, Trial, draw_trials  # noqa: E402
from benchmarks.hostile_input.world import digests, make_odd, make_precious  # noqa: E402

LONGEST_S = 60.0  # of a trial
MEMORY = 700 * 2**20  # bytes that a trial may allocate beyond those of the libraries
LIBRARIES = 4 * 2**30  # bytes of a new interpreter's address space
LONGEST_LINE = 1200  # characters of an error
MOST_OUTPUT = 2**20  # bytes
# Lines beside an error: of the interpreter, before it runs a command, and on AI-PEP's options that are ignored.
OTHER_LINES = re.compile(r"Invalid -W option ignored.*|.*: ignored")
BAD_WORDS = ("Traceback", "internal error", "Exception ignored", "MemoryError", "Fatal Python error")


def main() -> int:
    """Try all chosen trials; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, metavar="N", help="trials of each kind (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random trials (default: 0)")
    parser.add_argument("--kind", choices=KINDS, help="this kind alone")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this trial alone, of the same seed and count")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        make_precious(Path(folder, "precious"))
        for number, trial in enumerate(draw_trials(options.seed, options.count)):
            if options.kind not in (None, trial.kind) or options.only not in (None, number):
                continue
            problems = try_command(trial, Path(folder), random.Random(f"{options.seed}/{number}"))
            counts[trial.kind] += 1
            failures += bool(problems)
            for problem in problems:
                print(f"{number}: {problem}\n    {repr(trial)[:LONGEST_LINE]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()), f"tried; {failures} went wrong", sep=" ")
    return 1 if failures else 0


def try_command(trial: Trial, folder: Path, rng: random.Random) -> list[str]:
    """Run a trial in a folder of its own beside the precious files, and return its problems."""
    precious = folder / "precious"
    before = digests(precious)
    with tempfile.TemporaryDirectory(dir=folder, prefix="t", ignore_cleanup_errors=True) as name:
        problems = list(find_problems(trial, *run(trial, Path(name), precious, rng)))
    return [*problems, "a file of others was changed"] if digests(precious) != before else problems


def run(trial: Trial, scratch: Path, precious: Path, rng: random.Random) -> tuple[int | None, str, str]:
    """Return the exit code (None: it took too long), and the output on both streams."""
    for name in ("home", "config", "state", "cache", "tmp", "work"):
        (scratch / name).mkdir()
    make_odd(scratch / "odd")
    for name, content in trial.files.items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def fill(text: str) -> str:
        for name, place in (("scratch", scratch), ("odd", scratch / "odd"), ("precious", precious)):
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
    with contextlib.ExitStack() as stack:
        descriptors = [open_output(kind, path, stack) for kind, path in zip(trial.outputs, outputs, strict=True)]
        process = start(trial, [fill(word) for word in trial.arguments], environment, scratch, descriptors)
        code = end_of(process, trial, rng)
    encoding = (trial.environment.get("PYTHONIOENCODING") or "utf-8").partition(":")[0]
    out, err = (
        path.read_bytes()[:MOST_OUTPUT].decode(encoding, "replace") if path.exists() else "" for path in outputs
    )
    return code, out, err


def open_output(kind: str, path: Path, stack: contextlib.ExitStack) -> int:
    """Open a standard stream of a trial; the stack closes it."""
    if kind == "no reader":
        read_end, descriptor = os.pipe()
        os.close(read_end)
    else:
        target = "/dev/full" if kind == "full" else str(path)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


def start(
    trial: Trial, arguments: list[str], environment: Mapping[str, str], folder: Path, outputs: list[int]
) -> "Forked | subprocess.Popen[bytes]":
    """Start a trial's command with limits of memory and file sizes: in a fork of a process that has loaded everything,
    or, where its start is tried, too, in an interpreter of its own."""
    process: Forked | subprocess.Popen[bytes]
    is_module = not trial.script.endswith(".py")
    out, err = outputs
    if is_module or trial.kind in ("environment", "signal") or "closed" in trial.outputs:
        script = ["-m", trial.script] if is_module else [str(ROOT / trial.script)]
        words = [os.fsencode(word) for word in (sys.executable, *script, *arguments)]
        closed = [descriptor for descriptor, kind in enumerate(trial.outputs, start=1) if kind == "closed"]
        process = subprocess.Popen(
            words,
            env=environment,
            cwd=ROOT if is_module else folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=lambda: list(map(os.close, closed)),
        )
        size = LIBRARIES
    else:
        command = [sys.executable, str(ROOT / trial.script), *arguments]
        process = Forked(command, env=environment, cwd=folder, stdout=out, stderr=err)
        size = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    limits = [(resource.RLIMIT_AS, size + MEMORY), (resource.RLIMIT_CORE, 0)]
    limits += [] if trial.file_limit is None else [(resource.RLIMIT_FSIZE, trial.file_limit)]
    with contextlib.suppress(ProcessLookupError):
        for name, limit in limits:
            resource.prlimit(process.pid, name, (limit, limit))
    return process


def end_of(process: "Forked | subprocess.Popen[bytes]", trial: Trial, rng: random.Random) -> int | None:
    """Send a random signal, if the trial has one, and return the exit code; None if it took too long and was killed."""
    if trial.signal_after_s is not None:
        while process.poll() is None and not _handles_signals(process.pid):
            time.sleep(0.001)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(trial.signal_after_s)
        process.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
    try:
        return process.wait(LONGEST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


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
    lines = [line for line in err.splitlines() if not OTHER_LINES.fullmatch(line)]
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
