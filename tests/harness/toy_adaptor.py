"""A worker-side adaptor whose operators fail in every way that a framework does, and take a known time otherwise.

It stands in for MXNet where the point is the worker, not the operator; real MXNet is in test_mxnet_*.py.
"""

import os
import signal
import sys
import time
import zlib

LEFT_BEHIND = []


class MissingOperator(Exception):
    kind = "missing"


def versions():
    if os.environ.get("TOY_IMPORT") == "dies":
        sys.stderr.write("cannot import toy: no such library\n")
        sys.exit(1)
    return {"framework": "1.0"}


def work(turns):
    total = 0
    for value in range(turns):
        total += value
    return total


def make_call(case, seed):
    """``operator`` says what happens; ``TOY_SIDE`` (a build's own variable) lets it happen on one side alone."""
    inputs, name = case["inputs"], case["operator"]
    side = os.environ.get("TOY_SIDE", "")
    if inputs.get("only_on") not in (None, side):
        name = "work"
    if name == "missing":
        raise MissingOperator("toy 1.0 has no operator nd.gone")
    if name == "refuse":
        raise ValueError("Shapes (2,) and (3,)\nincompatible")
    if name == "segfault_like_exit":
        os.write(2, b"\nSegmentation fault: 11\n\nStack trace: ...\n")
        os._exit(255)
    if name == "abort":
        os.kill(os.getpid(), signal.SIGABRT)
    if name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hang":
        os.write(1, b"going to sleep\n")
        time.sleep(1000)
    if name == "garbage":
        os.write(1, b'{"ns": [1]}\n\x00\xff\xfe not JSON \x1b[31m' * 100)
    if name == "remember":
        if LEFT_BEHIND:
            raise ValueError("something was left behind")
        LEFT_BEHIND.append(name)
    if name == "refuse_later":
        calls = []

        def refuse_later():
            calls.append(1)
            if len(calls) > 40:
                raise ValueError("the forty-first call is too many")
            time.sleep(0.002)

        return refuse_later
    if name == "checksum":
        data = bytes(int(inputs["bytes"] * (inputs.get("slower", 1) if side == "treatment" else 1)))
        return lambda: zlib.crc32(data)
    turns = inputs.get("turns", 2000)
    if side == "treatment" and os.path.exists(inputs.get("slower_while", __file__)):
        turns = int(turns * inputs.get("slower", 1))
    return lambda: work(turns)
