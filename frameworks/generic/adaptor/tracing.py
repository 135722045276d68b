"""Read the peak of a program's resident memory while it exits, where ptrace(2) stops it.

Afterwards is too late: the peak that wait4(2) reports includes the copy of the worker that became the program, which is
larger than a small program.
"""

import ctypes
import os
import signal
import time

TRACEME, CONT, SETOPTIONS = 0, 7, 0x4200
EXITKILL, TRACEEXIT = 0x100000, 0x40
EVENT_EXIT = 6
LOOK_S = 0.001

_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def trace_me():
    """Let the parent trace this process, if that is allowed."""
    _ptrace(TRACEME, 0, None, None)


def peak_of_traced(pid, look):
    """Let the child run until it exits, calling ``look`` every millisecond; return its peak in bytes.

    Return None if it isn't traced or was killed. The caller still has to wait for it.
    """
    peak = None
    while True:
        # without reaping it: a child that has ended is left to the caller
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG)
        if state is None:
            look()
            time.sleep(LOOK_S)
            continue
        if state.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
            return peak
        _, status = os.waitpid(pid, os.WUNTRACED)
        number = os.WSTOPSIG(status)
        if status >> 8 == signal.SIGTRAP | EVENT_EXIT << 8:
            peak = _high_water(pid)
            number = 0
        elif number == signal.SIGTRAP:  # it has just become the program
            _ptrace(SETOPTIONS, pid, None, EXITKILL | TRACEEXIT)
            number = 0
        _ptrace(CONT, pid, None, number)


def _high_water(pid):
    with open(f"/proc/{pid}/status") as lines:
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
