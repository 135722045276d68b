"""The toy adaptor, with calls that say how they are timed, and one that dies when it is watched."""

import os
import signal
import subprocess
import sys
import time
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "harness"))
from toy_adaptor import make_call as toy_call
from toy_adaptor import versions

__all__ = ["make_call", "versions"]
DATA = bytes(100_000)
IMPORTED_IN = os.getpid()


MATMUL = "onednn_verbose,exec,cpu,matmul,{},undef,src_f32::blocked:ab:f0,,,4x4:4x4,{}e-3\n"
REORDER = "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:ab:f0 dst_f32::blocked:ba:f0,,,4x4,0.001\n"


def logging(case, fast, slow):
    """Like a library that logs its primitives where it is asked to; more and slower ones on one side alone."""
    there = os.environ.get("TOY_SIDE") == case["inputs"]["only_on"]
    lines = MATMUL.format(slow, 3) + 2 * REORDER if there else MATMUL.format(fast, 1)
    if os.environ.get("ONEDNN_VERBOSE") != "1":
        return lambda: None
    print("onednn_verbose,info,oneDNN v{} (commit N/A)".format("2.4.4" if there else "1.7.0"))
    return lambda: print(lines, end="")


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
    elif name == "logs_primitives":
        return logging(case, "jit:avx512_core", "ref:any")
    elif name == "logs_much":
        twice = 1 + (os.environ.get("TOY_SIDE") == case["inputs"]["only_on"])
        line = MATMUL.format("jit:avx2", 1) * (13_000 * twice)  # a mebibyte, after which no further call is made
        return lambda: print(line, end="")
    elif name == "unforked":
        if os.getpid() != IMPORTED_IN:
            raise ValueError("was forked")
    else:
        return toy_call(case, seed)
    return call
