"""Run a program once, without a shell, and measure its use of resources.

The program inherits the worker's processors and is killed with it.  It leads a process group of its own, so that
neither can signal the other by accident; processes that it leaves running are killed, also if the worker dies.  It
prints to files in memory, of which at most ``MAX_OUTPUT`` bytes are kept.
"""

import collections
import contextlib
import ctypes
import errno
import json
import os
import re
import select
import shlex
import signal
import subprocess
import time

from . import tracing
from .folders import fresh_folder, reserved
from .printed import ProgramError

# Variables that the build sets: the program, and arguments that are a part of the build, a JSON list.
PROGRAM, ARGUMENTS = "OPDUEL_PROGRAM", "OPDUEL_PROGRAM_ARGUMENTS"
HIDDEN_PREFIXES = ("OPDUEL_", "PYTHON", "MALLOC_", "LC_ALL")  # variables of opduel's that a program doesn't get
USER_VARIABLES = "OPDUEL_ENV"  # lists the user's variables, which a program gets whatever they are called
PADDING = "OPDUEL_PADDING"  # has a random size, on purpose
MAX_OUTPUT = 64 * 1024 * 1024  # bytes
POLL_MS = 20  # how often the length of the output is checked
TAIL = 2000  # bytes of a failed program's output that are shown
LONGEST_LINE = 200
PDEATHSIG, GET_PDEATHSIG = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)

Run = collections.namedtuple("Run", "wall_ns cpu_ns peak_bytes output")


class Command:
    """The command of a case: the program with its arguments, input, environment, folder, and what is run around it."""

    def __init__(self, case):
        inputs = case["inputs"]
        words = {"{program}": os.environ[PROGRAM]}
        words.update(("{files.%s}" % name, path) for name, path in case["files"].items())
        parameters = {"{%s}" % name: value for name, value in inputs.get("parameters", {}).items()}
        words.update(parameters)
        pattern = re.compile("|".join(map(re.escape, words)))

        def filled(text):
            # A parameter that is all of a word may stand for several, or none, as in a shell.
            return shlex.split(words[text]) if text in parameters else [pattern.sub(lambda word: words[word[0]], text)]

        first, *others = inputs["command"]
        command = [first, *json.loads(os.environ.get(ARGUMENTS, "[]")), *others]
        lines = {"command": command, "prepare": inputs.get("prepare"), "cleanup": inputs.get("cleanup")}
        self.lines = {
            name: [os.fsencode(word) for text in line or () for word in filled(text)] for name, line in lines.items()
        }
        passed_on = [PADDING, *os.environ.get(USER_VARIABLES, "").split(",")]
        names = [name for name in os.environ if name in passed_on or not name.startswith(HIDDEN_PREFIXES)]
        self.environment = {name: os.environ[name] for name in names}
        self.environment.update(inputs.get("env") or {})
        self.stdin = inputs.get("stdin", os.devnull)
        self.exit_codes = inputs.get("exit_codes", [0])
        self.folder = self.template = inputs.get("cwd")
        self.is_fresh = inputs.get("fresh_folder", False)
        self.output = os.memfd_create("opduel-stdout")
        self.errors = os.memfd_create("opduel-stderr")
        self.running = None  # the pid of the program

    @property
    def has_surroundings(self):
        """Whether a run has parts that are not the program's."""
        return bool(self.is_fresh or self.lines["prepare"] or self.lines["cleanup"])

    def run(self, keep=False, peak=False):
        """Run it once and return a ``Run``, with its ``output`` if ``keep`` and its ``peak_bytes`` if ``peak``.

        Raise ProgramError if it can't be started, is killed, prints too much to be kept, its exit code is not one of
        ``exit_codes``, or what is run around it fails.
        """
        with contextlib.ExitStack() as stack, _ending_with_parent(stack.close):
            if self.has_surroundings:
                own_folder = fresh_folder(self.template) if self.is_fresh else reserved(self.template or os.curdir)
                try:
                    self.folder = stack.enter_context(own_folder)
                except OSError as error:
                    raise ProgramError(f"the working folder can't be used: {error}") from None
            stack.callback(self._kill_running)
            self._run_around("prepare")
            try:
                run = self._run(keep, peak)
            except ProgramError:
                with contextlib.suppress(ProgramError):
                    self._run_around("cleanup")
                raise
            self._run_around("cleanup")
        return run

    def _run_around(self, name):
        if self.lines[name]:
            process = self._start(self.lines[name])
            try:
                self._wait(process.pid)
                process.wait()
            finally:
                self._kill_running()
            self._check(process.returncode, f"the {name} command")

    def _run(self, keep, peak):
        began = time.perf_counter_ns()
        process = self._start(self.lines["command"], self.stdin, peak)
        try:
            peak_bytes = tracing.peak_of_traced(process.pid, self._bound) if peak else None
            dropped = self._wait(process.pid, keep)
            _, status, used = os.wait4(process.pid, 0)
            wall_ns = time.perf_counter_ns() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            self._kill_running()  # also processes that it left running
        if keep and dropped:
            raise ProgramError(f"printed more than {MAX_OUTPUT >> 20} MiB: print the values alone")
        self._check(process.returncode)
        if peak and peak_bytes is None:
            raise ProgramError("its memory can't be seen, because this system doesn't let it be traced: allow ptrace")
        cpu_ns = round(1e9 * (used.ru_utime + used.ru_stime))
        output = os.pread(self.output, MAX_OUTPUT, 0).decode("utf-8", "replace") if keep else None
        return Run(wall_ns, cpu_ns, peak_bytes, output)

    def _start(self, words, stdin=os.devnull, traced=False):
        """Start a process that reads the file ``stdin``, and return it. Raise ProgramError."""
        for file in (self.output, self.errors):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
        self.running = None

        def prepare():  # in the child
            _libc.prctl(PDEATHSIG, signal.SIGKILL)
            if traced:
                tracing.trace_me()

        try:
            with open(stdin, "rb") as source:
                process = subprocess.Popen(
                    words,
                    stdin=source,
                    stdout=self.output,
                    stderr=self.errors,
                    env=self.environment,
                    cwd=self.folder,
                    process_group=0,
                    preexec_fn=prepare,
                )
        except OSError as error:
            if error.filename in (self.folder, stdin):
                noun = "standard input" if error.filename == stdin else "the working directory"
                raise ProgramError(f"{noun} {error.filename} can't be used: {error.strerror}") from None
            kind = "missing" if error.errno == errno.ENOENT else "start"
            raise ProgramError(f"{os.fsdecode(words[0])} can't be started: {error.strerror}", kind) from None
        self.running = process.pid
        return process

    def _wait(self, pid, keep=False):
        """Wait until a process has ended; return whether it printed too much, at which it is killed if ``keep``."""
        dropped = False
        with _ending(pid) as wait_until_ended:
            while not wait_until_ended(POLL_MS):
                dropped = self._bound() or dropped
                if keep and dropped:
                    os.kill(pid, signal.SIGKILL)
        return self._bound() or dropped

    def _bound(self):
        """Drop output that is too long; return whether that was standard output."""
        long = [file for file in (self.output, self.errors) if os.fstat(file).st_size > MAX_OUTPUT]
        for file in long:
            os.ftruncate(file, 0)
        return self.output in long

    def _kill_running(self):
        if self.running is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.running, signal.SIGKILL)

    def _check(self, code, subject="the program"):
        """Unless it ended with an exit code that is accepted, print the end of its output and raise ProgramError."""
        is_program = subject == "the program"
        if code in (self.exit_codes if is_program else [0]):
            return
        last_line = ""
        for file in (self.output, self.errors):
            size = os.fstat(file).st_size
            tail = os.pread(file, TAIL, max(0, size - TAIL))
            os.write(2, tail)
            lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
            last_line = f": {lines[-1][:LONGEST_LINE]}" if lines else last_line
        if code >= 0:
            fix = " (if that is right, list it in the test's exit_codes; of opduel run, give -i)" if is_program else ""
            raise ProgramError(f"{subject} ended with exit code {code}{last_line}{fix}")
        names = {known_signal: known_signal.name for known_signal in signal.Signals}
        raise ProgramError(f"{subject} was killed by {names.get(-code, f'signal {-code}')}{last_line}", "crash")


@contextlib.contextmanager
def _ending_with_parent(end):
    """When this process' parent dies, call ``end`` and die: meanwhile Linux sends SIGTERM in place of SIGKILL."""

    def die(number, _):
        end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before = ctypes.c_int()
    _libc.prctl(GET_PDEATHSIG, ctypes.byref(before))
    handler = signal.signal(signal.SIGTERM, die)
    _libc.prctl(PDEATHSIG, signal.SIGTERM)
    try:
        yield
    finally:
        _libc.prctl(PDEATHSIG, before.value)
        signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)


@contextlib.contextmanager
def _ending(pid):
    """Yield a function that waits so many milliseconds for a process, and returns whether it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # an older Linux
        yield lambda limit_ms: time.sleep(0.001) or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        yield poll.poll
    finally:
        os.close(handle)
