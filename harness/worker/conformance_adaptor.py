"""A framework's adaptor with faults beside its calls, for the conformance test: runs inside a build.

The worker loads this file as the adaptor.  The variable OPDUEL_CONFORMANCE says which adaptor is behind it, and for
which cases something happens: ``{"adaptor": path, "faults": {case id: "crash", "hang", "garbage" or "changed"}}``.
All that the adaptor has is passed on.  Standard library and Python 3.6 syntax.
"""

import json
import os
import signal
import sys
import time

TOLD = json.loads(os.environ["OPDUEL_CONFORMANCE"])
INNER = sys.modules["__main__"].load_adaptor(TOLD["adaptor"])  # the worker's own way of loading
GARBAGE = b'{"ns": [1]}\n{"ended": 0}\n\x00\xff\xfe not JSON \x1b[31m' * 50


def versions():
    """The adaptor's own, and the variables that the process has after the import."""
    return {"versions": INNER.versions(), "environment": dict(os.environ)}


def make_call(case, seed):
    """The adaptor's call, with the case's fault after it."""
    call, fault = INNER.make_call(case, seed), TOLD["faults"].get(case["id"])

    def faulty():
        call()
        FAULTS[fault]()

    return faulty if fault in FAULTS else call


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(0.1)


def hang():
    while True:
        time.sleep(60)


def garbage():
    """On both streams, by Python and below it."""
    print("printed by Python")
    sys.stderr.write("printed by Python\n")
    for stream in (1, 2):
        os.write(stream, GARBAGE)


FAULTS = {"crash": crash, "hang": hang, "garbage": garbage}


if hasattr(INNER, "results"):

    def results(case, seed, folder, limit):
        """The adaptor's own; of a case that is "changed", with other numbers in each file."""
        if TOLD["faults"].get(case["id"]) == "garbage":
            garbage()
        arrays = INNER.results(case, seed, folder, limit)
        if TOLD["faults"].get(case["id"]) == "changed":
            for array in arrays:
                change(os.path.join(folder, array["file"]), array["count"])
        return arrays


def change(path, count):
    """Change every element of a file of little-endian numbers: a bit of each one's last byte."""
    with open(path, "r+b") as stream:
        content = bytearray(stream.read())
        size = len(content) // max(1, count)
        for place in range(size - 1, len(content), max(1, size)):
            content[place] ^= 2 if size > 1 else 1
        stream.seek(0)
        stream.write(content)


globals().update((name, getattr(INNER, name)) for name in dir(INNER) if name not in globals())
