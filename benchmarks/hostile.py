"""Hostile input for every command: command lines, specs, reports, configs, environments, programs and outputs that
nobody should give, hundreds of them, drawn from a seed.

    .venv/bin/python benchmarks/hostile.py [--count 60] [--seed N] [--kind KIND] [--only NUMBER] [--forked]

Each must end with an exit code that is right for it, without a traceback or an internal error, in bounded memory and
time, with one line where the usage is wrong, without showing a secret, and without changing a file that isn't its own.
What is found is printed with the number by which --only tries it again; exit code 1 if anything was.

It measures nothing, and uses no network. ``make nightly`` runs it.
"""

import argparse
import contextlib
import importlib
import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.hostile_input.trials import KINDS, SECRETS, WRONG, Trial, trials  # noqa: E402
from benchmarks.hostile_input.world import digests, make_odd, make_precious  # noqa: E402

MAINS = {
    "harness.py": "opduel.commands.harness",
    "run_bench.py": "opduel.commands.run_bench",
    "repo_driver.py": "opduel.commands.repo_driver",
    "opduel.server": "opduel.server.command_line",
}
LONGEST_S = 60.0  # of a trial
MEMORY = 700 * 2**20  # bytes that a trial may take besides what the libraries take
LONGEST_LINE = 1200  # characters of what it says
MOST_SAID = 2**20  # bytes of it
CRASHED = 99  # the exit code of a trial whose main() raised
PYTHONS_OWN = "Invalid -W option ignored"  # what an interpreter prints before it runs a line of ours
BAD_WORDS = ("Traceback", "internal error", "Exception ignored", "MemoryError", "Fatal Python error")


def main() -> int:
    """Try them all; returns the exit code."""
    options = _parser().parse_args()
    numbered = list(enumerate(trials(options.seed, options.count)))
    chosen = [
        (number, trial)
        for number, trial in numbered
        if options.kind in (None, trial.kind)
        and options.only in (None, number)
        and not (options.forked and trial.fresh)
    ]
    for name in MAINS.values():
        importlib.import_module(name)  # once: each trial is a fork of this process
    tried: Counter[str] = Counter()
    found = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        bench = Bench(Path(folder))
        for number, trial in chosen:
            problems = bench.try_one(trial, random.Random(f"{options.seed}/{number}"))
            tried[trial.kind] += 1
            found += bool(problems)
            for problem in problems:
                print(f"{number}: {problem}\n    {describe(trial)}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in tried.items()), f"tried; {found} went wrong", sep=" ")
    return 1 if found else 0


class Bench:
    """Where trials are made, one after the other."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is empty."""
        self._folder = folder
        self._precious = folder / "precious"
        make_precious(self._precious)
        self._before = digests(self._precious)

    def try_one(self, trial: Trial, rng: random.Random) -> list[str]:
        """What is wrong with how it ended."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="t", ignore_cleanup_errors=True) as scratch:
            started = time.monotonic()
            outcome = self._run(trial, Path(scratch), rng)
            seconds = time.monotonic() - started
        problems = list(judged(trial, *outcome, seconds))
        if digests(self._precious) != self._before:
            problems.append("a file that is none of its own was changed")
            for path in self._precious.iterdir():
                path.unlink()
            self._precious.rmdir()
            make_precious(self._precious)
        return problems

    def _run(self, trial: Trial, scratch: Path, rng: random.Random) -> tuple[int | None, str, str]:
        """Its exit code (None: it took too long), and what it said on both streams."""
        for name in ("home", "config", "state", "cache", "tmp", "work"):
            (scratch / name).mkdir()
        make_odd(scratch / "odd")
        for name, content in trial.files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        places = {"{scratch}": str(scratch), "{odd}": str(scratch / "odd"), "{precious}": str(self._precious)}

        def filled(text: str) -> str:
            for name, place in places.items():
                text = text.replace(name, place)
            return text

        arguments = [filled(one) for one in trial.arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPDUEL_", "XDG_"))}
        environment |= {f"XDG_{name.upper()}_HOME": str(scratch / name) for name in ("config", "state", "cache")}
        environment["HOME"] = str(scratch / "home")  # where everything goes if an XDG variable is empty
        environment |= {"TMPDIR": str(scratch / "tmp"), "UV_OFFLINE": "1", "COLUMNS": "80"}
        for name, value in trial.environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = filled(value)
        said = scratch / "said-out", scratch / "said-err"
        run = _fresh if trial.fresh else _forked
        code = run(trial, arguments, environment, scratch, said, rng)
        encoding = (trial.environment.get("PYTHONIOENCODING") or "utf-8").partition(":")[0]
        texts = [path.read_bytes()[:MOST_SAID].decode(encoding, "replace") if path.exists() else "" for path in said]
        return code, texts[0], texts[1]


def judged(trial: Trial, code: int | None, out: str, err: str, seconds: float) -> Iterator[str]:
    """What is wrong with it."""
    if code is None:
        yield f"still runs after {LONGEST_S:g} s"
    elif code not in trial.expected:
        yield f"exit code {code}: {(err or out)[-300:]!r}"
    for words in BAD_WORDS:
        if words in out + err:
            yield f"says {words!r}: {err[-300:]!r}"
    lines = [line for line in err.splitlines() if not line.startswith(PYTHONS_OWN)]
    # A config's defaults are listed first; a signal may come in the middle of anything.
    is_alone = trial.kind not in ("config", "signal")
    if code == WRONG and is_alone and trial.outputs[1] == "file" and trial.file_limit is None and len(lines) != 1:
        yield f"wrong usage is reported in {len(lines)} lines: {err[:300]!r}"
    if any(len(line) > LONGEST_LINE for line in lines):
        yield f"says a line of {max(map(len, lines))} characters"
    if len(err) >= MOST_SAID:
        yield "says more than anybody reads"
    if any(secret in out + err for secret in SECRETS):
        yield f"shows a secret: {err[-300:]!r}"


def describe(trial: Trial) -> str:
    """How it was started, in a line."""
    variables = [f"{name}={value!r}" for name, value in trial.environment.items()]
    line = shlex.join([trial.script, *trial.arguments])
    files = [f"{name}: {content[:150]!r}" for name, content in trial.files.items()]
    more = [
        f"output to {trial.outputs}",
        f"files of {trial.file_limit} bytes",
        f"signal after {trial.signal_after_s} s",
    ]
    told = [trial.outputs != ("file", "file"), trial.file_limit is not None, trial.signal_after_s is not None]
    line = " ".join([*variables, line]).encode("utf-8", "backslashreplace").decode()
    return "; ".join([line[:600], *files, *(one for one, is_told in zip(more, told, strict=True) if is_told)])


def _forked(
    trial: Trial, arguments: list[str], environment: dict[str, str], scratch: Path, said: tuple[Path, Path], _: object
) -> int | None:
    """In a fork of this process, which has imported everything."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = CRASHED
        with contextlib.suppress(BaseException):
            os.setsid()
            os.chdir(scratch)
            _redirect(trial, said)
            os.environ.clear()
            os.environ.update(environment)
            tempfile.tempdir = None
            _limit(trial)
            sys.argv = [trial.script, *arguments]
            code = _called(trial, arguments)
        os._exit(code)
    return _waited(child)


def _called(trial: Trial, arguments: list[str]) -> int:
    import traceback

    run: Callable[..., int] = importlib.import_module(MAINS[trial.script]).main
    try:
        code = run(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = CRASHED
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _fresh(
    trial: Trial,
    arguments: list[str],
    environment: dict[str, str],
    scratch: Path,
    said: tuple[Path, Path],
    rng: random.Random,
) -> int | None:
    """In an interpreter of its own."""
    script = (
        ["-m", trial.script] if trial.script not in ("harness.py", "run_bench.py", "repo_driver.py") else [trial.script]
    )
    command = [sys.executable, str(ROOT / script[0]) if script[0] != "-m" else "-m", *script[1:], *arguments]

    def prepare() -> None:
        os.setsid()
        _redirect(trial, said)
        _limit(trial)

    words = [os.fsencode(word) for word in command]
    folder = ROOT if script[0] == "-m" else scratch
    process = subprocess.Popen(words, env=environment, cwd=folder, preexec_fn=prepare)
    if trial.signal_after_s is not None:
        while process.poll() is None and not _handles_signals(process.pid):
            time.sleep(0.001)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(trial.signal_after_s)
        process.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
    try:
        return process.wait(LONGEST_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _handles_signals(pid: int) -> bool:
    """Whether the process has come to the command's first lines: it blocks SIGTERM, or handles it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(("SigBlk:", "SigCgt:")) and int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
                return True
    return False


def _redirect(trial: Trial, said: tuple[Path, Path]) -> None:
    """The standard streams, in the child."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, (where, path) in enumerate(zip(trial.outputs, said, strict=True), start=1):
        if where == "closed":
            os.close(descriptor)
        elif where == "gone":  # a pipe whose reader has ended
            read_end, write_end = os.pipe()
            os.close(read_end)
            os.dup2(write_end, descriptor)
        else:
            target = "/dev/full" if where == "full" else str(path)
            os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)


def _limit(trial: Trial) -> None:
    """Bounds on memory, time and files, in the child."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    most = (4 * 2**30 if trial.fresh else taken) + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if trial.file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (trial.file_limit, trial.file_limit))


def _waited(pid: int) -> int | None:
    """Its exit code (negative for a signal); None for one that was killed, with its children, as it took too long."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, metavar="N", help="trials of each kind (default: 60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what they are drawn from (default: 0)")
    parser.add_argument("--kind", choices=list(KINDS), help="this kind alone")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this trial alone, of the same seed and count")
    parser.add_argument("--forked", action="store_true", help="only those that need no interpreter of their own")
    return parser


if __name__ == "__main__":
    sys.exit(main())
