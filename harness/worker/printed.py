"""What calls print, such as a library's log of the primitives that it runs: main.py says what is answered.

Standard library and Python 3.6 syntax only, as main.py.
"""

import contextlib
import ctypes
import os
import sys

from opduel_timing import repeat

STDOUT = "/proc/self/fd/1"  # a file of the case's own
MOST_BYTES = 1 << 20  # after so much no further call is made
HEAD_BYTES = 1 << 14  # of what was printed before


def flush():
    """Write out what Python and C libraries still hold back."""
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def printed(call, calls, number, before, after):
    """What at most about ``calls`` calls print, and how many were made: functions.py says what the arguments are. All
    that they print is answered, so that a side that prints more is not cut off sooner. "before" has the first lines of
    the case until then: libraries say once which release they are."""
    regions = max(1, calls // (number or 1))
    number = number or 1
    flush()
    calls_made = 0
    with open(STDOUT, "rb") as stream:
        start = end = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        head = stream.read(min(start, HEAD_BYTES))
        while calls_made < regions * number and end - start < MOST_BYTES:
            before()
            repeat(call, number, after)
            calls_made += number
            flush()
            end = stream.seek(0, os.SEEK_END)
        stream.seek(start)
        text = stream.read()
    lines, earlier = (part.decode("utf-8", "replace").splitlines() for part in (text, head))
    return {"calls": calls_made, "lines": lines, "before": earlier}
