"""How the worker speaks to the controller: JSON, one message a line, over two file descriptors of its own.

Whatever the framework prints goes to stdout or stderr and can't break the protocol.  The controller may kill the worker
at any moment.  Having imported the framework once, it forks a child for each case, so that no case sees what another
left behind; what an adaptor imports for some cases alone is imported in a child that then forks the children of these
cases (ImportedChildren).  A child of a case has a slot: two descriptors to speak over and a file for what it prints.
With two slots one case can be prepared while another is measured.  Standard library and Python 3.6 syntax only, as
main.py.

On the worker's own descriptors:
                                       -> {"ready": versions, "nice": int, "cpu_s": of a processor since it began}
    {"op": "begin", "slot": int, "fork": bool[, "case": {...}]}    (answered over the slot)
Over a slot:
                                                                   -> {"pid": int}
    {"op": NAME, ...}: a method of the session (main.py, counting.py) and its arguments -> what it returns
    {"op": "end"}                                                  -> {"ended": exit code, -N for signal N}

A call may exist only within what the adaptor runs around it, such as a test (``surround``): then the case is prepared,
and served until its end, in there.

A child that dies answers whatever was asked with {"ended": ...}.  Any answer may instead be {"error": {"kind": str,
"reason": str}}: the framework refused, the child lives on.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import time

HIGHEST = -20  # priority, as a nice value
ASKED, ASKED_S = 20, 0.1
MOST_FORKERS = 2  # the case that is measured, and the one in preparation
READY = b"."
CLOSING_S = 10  # for what a call does when its case has ended
MAKES_CALL = ("prepare", "reach")  # what the session makes the case's call for


class BadAdaptor(Exception):
    """The adaptor lacks a function, or one of its functions returns something else than it should."""

    kind = "error"


class Unseen(Exception):
    """What is asked of a case can't be seen, because of how it runs or is timed; the text says why."""

    kind = "error"
    says_all = True


def die_with_parent():
    """Ask Linux for SIGKILL when the controller dies, so that a hanging call can't outlive it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def raise_priority():
    """Give this process, and what it will fork, the highest priority, if it may have it; returns its nice value.

    Linux's scheduler has each session in a group with a nice value of its own (man 7 sched, autogroup): that of this
    one is set, too, if it leads its session.  With "keep" in the environment's OPDUEL_PRIORITY nothing is changed.
    """
    if os.environ.get("OPDUEL_PRIORITY") != "keep" and os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # no right to it, or no such groups
            for thread in os.listdir("/proc/self/task"):
                os.setpriority(os.PRIO_PROCESS, int(thread), HIGHEST)
            group = os.open("/proc/self/autogroup", os.O_WRONLY)
            try:
                give_priority(group)
            finally:
                os.close(group)
    return os.getpriority(os.PRIO_PROCESS, 0)


def give_priority(group):
    """Linux takes ten such requests a second from all users together, but for the administrator's."""
    for _ in range(ASKED):
        try:
            os.write(group, str(HIGHEST).encode())
            return
        except BlockingIOError:
            time.sleep(ASKED_S)


def describe(error, adaptor):
    """One line for an exception; the adaptor knows which line of its framework's messages says what is wrong.

    An exception of the adaptor's own with ``says_all`` needs no name before its text; one with a ``place`` begins with
    it.
    """
    text = str(error).strip()
    if not text:
        import traceback  # here, because it is a tenth of what a worker without its framework takes to start

        text = "".join(traceback.format_exception_only(type(error), error)).strip()
    line = adaptor.key_line(text) if hasattr(adaptor, "key_line") else text.splitlines()[0].strip()
    name = type(error).__name__
    words = line if line.startswith(name) or getattr(error, "says_all", False) else f"{name}: {line}"
    return ": ".join(filter(None, (getattr(error, "place", ""), words)))


class Channel:
    """Messages to and from the controller, which sends one and waits for its answer.

    Nothing is buffered from one message to the next: a child must not take along what its parent has read.
    """

    def __init__(self, read_fd, write_fd, output_fd=None):
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.output_fd = output_fd

    def receive(self):
        """The messages that have come, at least one; None when the controller has closed its end."""
        text = b""
        while not text.endswith(b"\n"):
            chunk = os.read(self.read_fd, 1 << 16)
            if not chunk:
                return None
            text += chunk
        messages = []
        for line in text.splitlines():
            with contextlib.suppress(ValueError):  # the end of what a child was reading when it died
                messages.append(json.loads(line.decode("utf-8")))
        return messages

    def forget(self):
        """Drop what was meant for a child that has died."""
        while select.select([self.read_fd], [], [], 0)[0]:
            if not os.read(self.read_fd, 1 << 16):
                return

    def send(self, message):
        unsent = json.dumps(message).encode("utf-8") + b"\n"
        while unsent:
            unsent = unsent[os.write(self.write_fd, unsent) :]


def close(call):
    """Let a call put away what it has made. Whatever goes wrong, or hangs, ends the process: all has been measured."""
    if hasattr(call, "close"):
        signal.alarm(CLOSING_S)
        with contextlib.suppress(Exception):
            call.close()
        signal.alarm(0)


def serve_case(adaptor, channel, make_session):
    """Answer what is asked of one case, until it ends."""
    for stream in (1, 2):
        os.dup2(channel.output_fd, stream)
    channel.send({"pid": os.getpid()})
    answer_requests(adaptor, channel, make_session(adaptor), requests_of_case(channel))


def requests_of_case(channel):
    """Yield what is asked of a case: a method of the session, and its arguments."""
    while True:
        requests = channel.receive()
        if requests is None:
            os._exit(0)  # the controller has gone
        for request in requests:
            yield request.pop("op"), request


def answer_requests(adaptor, channel, session, requests, is_surrounded=False):
    """Answer what is asked until the case ends; ``is_surrounded``: within what the adaptor runs around its call."""
    for name, request in requests:
        if name == "end":
            close(session.call)
            return
        try:
            if name in MAKES_CALL and hasattr(adaptor, "surround") and not is_surrounded:
                if answer_within(adaptor, channel, session, name, request, requests):
                    return
                continue
            answer = getattr(session, name)(**request)
        except Exception as error:  # whatever the framework raises is an answer
            answer = {"error": {"kind": getattr(error, "kind", "error"), "reason": describe(error, adaptor)}}
        send_answer(channel, name, answer)


def answer_within(adaptor, channel, session, name, request, requests):
    """Answer what is asked of a case whose call exists only within what the adaptor runs around it, such as a test, and
    what else is asked, there. Return whether the case has ended. Raise what goes wrong before the first answer."""
    is_answered = []

    def serve():
        answer = getattr(session, name)(**request)
        is_answered.append(True)
        send_answer(channel, name, answer)
        answer_requests(adaptor, channel, session, requests, is_surrounded=True)
        signal.alarm(CLOSING_S)

    try:
        adaptor.surround(request["case"], request["seed"], serve)
    except Exception:
        if not is_answered:
            raise  # later, all has been measured
    signal.alarm(0)
    return bool(is_answered)


def send_answer(channel, name, answer):
    """Send what the session answered, or why that can't be sent."""
    try:
        channel.send(answer)
    except (TypeError, ValueError) as error:  # raised before anything is written
        reason = "the answer to {} is no JSON: {}".format(name, error)
        channel.send({"error": {"kind": BadAdaptor.kind, "reason": reason}})


def requests_to(channel, children):
    """Yield what is asked over the channel until its other end is closed; meanwhile tell how children ended."""
    while True:
        ready = select.select([channel.read_fd, children.bell], [], [])[0]
        if children.bell in ready:
            children.tell_ended()
        if channel.read_fd in ready:
            requests = channel.receive()
            if requests is None:
                return
            yield from requests


class Children:
    """The forked children by slot, and the bell that rings when one of them has ended."""

    def __init__(self, adaptor, slots, make_session):
        self.adaptor = adaptor
        self.slots = slots
        self.make_session = make_session
        self.slot_of = {}
        self.bell, rope = os.pipe()
        for end in (self.bell, rope):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(rope)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler there is no ringing

    def fork(self):
        """Fork; in the child, return 0, and die with this process."""
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
        return pid

    def begin(self, slot):
        """Fork a child that serves one case over a slot."""
        self.slots[slot].forget()
        pid = self.fork()
        if pid == 0:
            serve_case(self.adaptor, self.slots[slot], self.make_session)
            os._exit(0)
        self.slot_of[pid] = slot

    def tell_ended(self):
        """Tell over its slot how each child ended that has."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.bell, 512):
                pass
        with contextlib.suppress(ChildProcessError):  # none is left
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                slot = self.slot_of.pop(pid, None)
                if slot is None:
                    self.note_ended(pid, status)
                else:
                    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                    self.slots[slot].send({"ended": code})

    def note_ended(self, pid, status):
        """Take note of a child that serves no case."""


class ImportedChildren(Children):
    """Children that have, before they are forked, what the adaptor imports for their case, and for no other one.

    A forker imports it once, and forks the children of all cases that need the same. The latest forkers are kept.
    """

    def __init__(self, adaptor, slots, make_session):
        super().__init__(adaptor, slots, make_session)
        self.forkers = {}  # what is imported -> process id, and a descriptor to ask it over; the latest last
        self.unsafe = set()  # what can't be imported before a fork
        self.starting = None  # process id of a forker that isn't ready

    def fork(self):
        pid = super().fork()
        if pid == 0:
            for _, descriptor in self.forkers.values():
                os.close(descriptor)
        return pid

    def begin_case(self, slot, case):
        """Begin a case in a fork of a forker; of this process, if nothing is to be imported, or can't be."""
        names = tuple(self.adaptor.modules_of(case)) if case and hasattr(self.adaptor, "modules_of") else ()
        if names and names not in self.unsafe and (names in self.forkers or self.start_forker(names)):
            self.forkers[names] = forker = self.forkers.pop(names)
            os.write(forker[1], json.dumps({"slot": slot}).encode("utf-8") + b"\n")
        else:
            self.begin(slot)

    def start_forker(self, names):
        """Start a forker, and return whether it is ready. One too many ends as soon as its children have."""
        if len(self.forkers) == MOST_FORKERS:
            os.close(self.forkers.pop(next(iter(self.forkers)))[1])
        (requests, asking), (answer, answering) = os.pipe(), os.pipe()
        self.starting = pid = self.fork()
        if pid == 0:
            try:
                os.close(asking)
                self.serve_forks(names, Channel(requests, answering))
            finally:  # whatever an import raises
                os._exit(0)
        os.close(requests)
        os.close(answering)
        ready = []
        while self.starting and answer not in ready:
            ready = select.select([answer, self.bell], [], [])[0]
            if self.bell in ready:
                self.tell_ended()
        is_ready, self.starting = self.starting is not None and os.read(answer, 1) == READY, None
        os.close(answer)
        if is_ready:
            self.forkers[names] = pid, asking
        else:
            os.close(asking)
            self.unsafe.add(names)
        return is_ready

    def serve_forks(self, names, channel):
        """Be a forker: import, and fork children where the worker may run, until it lets go of this process."""
        worker = os.getppid()
        if not self.adaptor.import_modules(names):
            return
        freeze_garbage()
        os.write(channel.write_fd, READY)
        os.close(channel.write_fd)
        children = Children(self.adaptor, self.slots, self.make_session)
        for request in requests_to(channel, children):
            os.sched_setaffinity(0, os.sched_getaffinity(worker))
            children.begin(request["slot"])
        while children.slot_of:
            select.select([children.bell], [], [])
            children.tell_ended()

    def note_ended(self, pid, status):
        """End as a forker did that had more to do: its children have died with it."""
        if pid == self.starting:
            self.starting = None
        elif any(pid == forker for forker, _ in self.forkers.values()):
            if os.WIFSIGNALED(status):
                os.kill(os.getpid(), os.WTERMSIG(status))
            os._exit(1)


def freeze_garbage():
    """Let later collections skip all that there is: what an import leaves is no garbage."""
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()


def serve(adaptor, channel, slots, make_session):
    """Begin cases and tell how they ended, until the controller closes its end."""
    children = ImportedChildren(adaptor, slots, make_session)
    versions = adaptor.versions()
    if not isinstance(versions, dict):
        raise BadAdaptor("the adaptor's versions returned {}, not a dict".format(type(versions).__name__))
    channel.send({"ready": versions, "nice": raise_priority(), "cpu_s": time.process_time()})
    for request in requests_to(channel, children):
        if request["fork"]:
            children.begin_case(request["slot"], request.get("case"))
        else:
            slot = slots[request["slot"]]
            serve_case(adaptor, slot, make_session)
            slot.send({"ended": 0})
