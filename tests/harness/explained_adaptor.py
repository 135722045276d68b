"""The toy adaptor, with calls that say how they are timed, and one that dies when it is watched."""

import os
import signal
import subprocess
import sys
import time
import zlib

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from toy_adaptor import make_call as toy_call
from toy_adaptor import versions

__all__ = ["make_call", "versions"]
DATA = bytes(100_000)
IMPORTED_IN = os.getpid()


def make_call(case, seed):
    def call():
        zlib.crc32(DATA)

    name = case["operator"]
    if name == "prepares":
        call.before = lambda: zlib.adler32(DATA)
    elif name == "times_itself":
        call.sample = lambda: 1000.0
    elif name == "device":

        def timer(work):
            start = time.perf_counter()
            work()
            return 1e9 * (time.perf_counter() - start)

        call.timer = timer
    elif name == "process":
        call.own_process = True
        call.__code__ = (lambda: subprocess.run(["/bin/true"], check=True)).__code__
    elif name == "dies_when_watched":

        def dying():
            if sys.getprofile() is not None:
                os.kill(os.getpid(), signal.SIGKILL)

        return dying
    elif name == "unforked":
        if os.getpid() != IMPORTED_IN:
            raise ValueError("was forked")
    else:
        return toy_call(case, seed)
    return call
