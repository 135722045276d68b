"""One run of a program: started without a shell, pinned as its worker is, killed with it, awaited, and its use of
resources.

The program leads a process group of its own, so that neither can signal the other by accident; what it leaves running
is killed, also where this process' parent dies meanwhile.  It prints to files in memory: of an output that is not read,
no more than ``MOST_KEPT`` bytes are kept.
"""

import collections
import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import time

from . import tracing

PROGRAM = "OPDUEL_PROGRAM"  # the variable that names the program; the build sets it
OURS = ("OPDUEL_", "PYTHON", "MALLOC_", "LC_ALL")  # variables of ours that a program doesn't get
USERS = "OPDUEL_ENV"  # has the names of the user's variables, which it gets, whatever they are called
PADDING = "OPDUEL_PADDING"  # of a random size, on purpose
MOST_KEPT = 64 * 1024 * 1024  # bytes of output
LOOK_MS = 20  # how often its length is looked at
TAIL = 2000  # bytes that are shown of a failed program's output
LONGEST_LINE = 200
PDEATHSIG, GET_PDEATHSIG = 1, 2
CANNOT_START = 127

_libc = ctypes.CDLL(None, use_errno=True)

Run = collections.namedtuple("Run", "cpu_ns peak_bytes output")


class RunFailed(Exception):
    """The program could not be started, or did not end well: ``kind`` as in records/measurement.py."""

    says_all = True

    def __init__(self, text, kind="error"):
        Exception.__init__(self, text)
        self.kind = kind


class Command:
    """What a case runs: the program's arguments, environment and folder."""

    def __init__(self, inputs):
        program = os.environ[PROGRAM]
        self.program = program
        self.arguments = [os.fsencode(one.replace("{program}", program)) for one in inputs["command"]]
        given = [PADDING, *os.environ.get(USERS, "").split(",")]
        names = [name for name in os.environ if name in given or not name.startswith(OURS)]
        self.environment = {name: os.environ[name] for name in names}
        self.environment.update(inputs.get("env") or {})
        self.folder = inputs.get("cwd")
        self.output = os.memfd_create("opduel-stdout")
        self.errors = os.memfd_create("opduel-stderr")
        self.running = None  # the pid of the program

    def run(self, keep=False, peak=False):
        """Run it once; returns a ``Run``: ``output`` is what it printed, if ``keep``, and ``peak_bytes`` exact if
        ``peak``.

        Raises RunFailed: it can't be started, is killed, prints too much to be kept, or its exit code is not 0.
        """
        for file in (self.output, self.errors):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
        self.running = None
        with _ending_with_parent(self._kill_running):
            return self._run(keep, peak)

    def _run(self, keep, peak):
        pid = self._start(peak)
        try:
            found = tracing.peak_of_traced(pid, self._bound) if peak else None
            dropped = self._wait(pid, keep)
            _, status, used = os.wait4(pid, 0)
        except BaseException:
            self._kill(pid)
            raise
        self._kill(pid)  # what it has left behind
        if keep and dropped:
            raise RunFailed("printed more than {} MiB: print the values alone".format(MOST_KEPT >> 20))
        self._check(status)
        cpu_ns = round(1e9 * (used.ru_utime + used.ru_stime))
        output = os.pread(self.output, MOST_KEPT, 0).decode("utf-8", "replace") if keep else None
        return Run(cpu_ns, self._peak(found, 1024 * used.ru_maxrss), output)

    def _start(self, traced):
        """The pid of the running program."""
        ready, failed = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(failed, traced)
        self.running = pid
        os.close(failed)
        said = os.read(ready, 64)
        os.close(ready)
        if said:
            os.waitpid(pid, 0)
            what, _, code = said.decode("ascii").partition(" ")
            reason = os.strerror(int(code))
            if what == "folder":
                raise RunFailed("the working directory {} can't be used: {}".format(self.folder, reason))
            kind = "missing" if int(code) == errno.ENOENT else "start"
            raise RunFailed("{} can't be started: {}".format(self.program, reason), kind)
        return pid

    def _become(self, failed, traced):
        """In the child: become the program. Never returns."""
        doing = "folder"
        try:
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
                signal.signal(number, signal.SIG_DFL)
            os.setpgid(0, 0)
            _libc.prctl(PDEATHSIG, signal.SIGKILL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(self.output, 1)
            os.dup2(self.errors, 2)
            if failed != 3:
                os.dup2(failed, 3, inheritable=False)
            os.closerange(4, 1024)
            if self.folder:
                os.chdir(self.folder)
            doing = "program"
            if traced:
                tracing.trace_me()
            os.execve(self.program, self.arguments, self.environment)
        except OSError as error:
            os.write(3, "{} {}".format(doing, error.errno).encode("ascii"))
        finally:
            os._exit(CANNOT_START)

    def _wait(self, pid, keep):
        """Wait until the program has ended; says whether it printed more than is kept: then it is stopped if what it
        prints is needed."""
        dropped = False
        with _ending(pid) as ended:
            while not ended(LOOK_MS):
                dropped = self._bound() or dropped
                if keep and dropped:
                    os.kill(pid, signal.SIGKILL)
        return self._bound() or dropped

    def _bound(self):
        """Drop what was printed if it is too much; says whether standard output was."""
        long = [file for file in (self.output, self.errors) if os.fstat(file).st_size > MOST_KEPT]
        for file in long:
            os.ftruncate(file, 0)
        return self.output in long

    def _kill(self, pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def _kill_running(self):
        if self.running is not None:
            self._kill(self.running)

    def _check(self, status):
        """Raise RunFailed unless it ended with exit code 0; then the end of its output is printed."""
        if status == 0:
            return
        said = ""
        for file in (self.output, self.errors):
            size = os.fstat(file).st_size
            tail = os.pread(file, TAIL, max(0, size - TAIL))
            os.write(2, tail)
            lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
            said = lines[-1][:LONGEST_LINE] if lines else said
        said = ": {}".format(said) if said else ""
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = next((one.name for one in signal.Signals if one == number), "signal {}".format(number))
            raise RunFailed("the program was killed by {}{}".format(name, said), "crash")
        raise RunFailed("the program ended with exit code {}{}".format(os.WEXITSTATUS(status), said))

    def _peak(self, traced, waited):
        """The most memory that was resident, of the program or a process that it waited for. Before it was the program
        the process was a copy of this one, and Linux counts that in ``waited``."""
        ours = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return waited if traced is None or waited > ours else traced


@contextlib.contextmanager
def _ending_with_parent(end):
    """Call ``end`` when this process' parent dies, and die then: Linux sends SIGTERM, in place of SIGKILL, which would
    leave no time for it."""

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
    """A function that waits so many milliseconds for a process, and says whether it has ended."""
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
