"""Read the peak of a program's memory while it exits, where ptrace(2) stops it; and of all processes that it starts.

Afterwards is too late: the peak that wait4(2) reports includes pages of files, and the copy of the worker that became
the program.
"""

import contextlib
import ctypes
import os
import signal

from opduel_common.peaks import peak_of_process

TRACEME, CONT, SETOPTIONS = 0, 7, 0x4200
TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC, TRACEEXIT, EXITKILL = 2, 4, 8, 0x10, 0x40, 0x100000
OPTIONS = TRACEFORK | TRACEVFORK | TRACECLONE | TRACEEXEC | TRACEEXIT | EXITKILL
EVENT_EXIT = 6
WALL = 0x40000000  # man 2 waitpid: threads, too
LOOK_S = 0.001

_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def trace_me():
    """Let the parent trace this process, if that is allowed."""
    _ptrace(TRACEME, 0, None, None)


def peak_of_traced(pid, look):
    """Let the child run until it exits, calling ``look`` every millisecond; return its peak in bytes, or that of a
    process that it started, if that is larger.

    Return None if it isn't traced or was killed. The caller still has to wait for it.
    """
    peaks, known = [], set()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        while True:
            # without reaping it: a child that has ended is left to the caller
            state = os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG | WALL)
            if state is None:
                look()
                signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)
                continue
            thread, has_ended = state.si_pid, state.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
            if has_ended and thread == pid:
                return max(peaks, default=None)
            status = os.waitpid(thread, WALL)[1]
            if has_ended:
                known.discard(thread)
                continue
            event = status >> 16
            if event == EVENT_EXIT:
                with contextlib.suppress(OSError, KeyError):  # killed meanwhile
                    peaks.append(peak_of_process(thread))
            elif (
                thread == pid and thread not in known
            ):  # it has just become the program; what it starts gets these, too
                _ptrace(SETOPTIONS, pid, None, OPTIONS)
            is_own_signal = thread in known and not event  # and not the first, which tracing itself sends
            known.add(thread)
            _ptrace(CONT, thread, None, os.WSTOPSIG(status) if is_own_signal else 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
