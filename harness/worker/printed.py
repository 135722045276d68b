"""What calls print, such as a library's log of the primitives that it runs: main.py says what is answered.

Standard library and Python 3.6 syntax only, as main.py.
"""

import contextlib
import ctypes
import os
import sys

STDOUT = "/proc/self/fd/1"  # a file of the case's own
MOST_BYTES = 1 << 20  # of what is printed; the lines beyond are not told


def flush():
    """Write out what Python and C libraries still hold back."""
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def printed(call, calls, number, before, after):
    """What about ``calls`` calls print: functions.py says what the arguments are. The last line is left out where it
    was cut off."""
    regions = max(1, calls // (number or 1))
    number = number or 1
    flush()
    with open(STDOUT, "rb") as stream:
        start = stream.seek(0, os.SEEK_END)
    for _ in range(regions):
        before()
        for _ in range(number):
            call()
            if after:
                after()
    flush()
    with open(STDOUT, "rb") as stream:
        stream.seek(start)
        text = stream.read(MOST_BYTES + 1)
    whole = len(text) <= MOST_BYTES
    lines = text.decode("utf-8", "replace").splitlines()
    return {"calls": regions * number, "lines": lines if whole else lines[:-1], "whole": whole}
