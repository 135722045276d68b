"""Arrays that the processes of a run keep for each other, where the controller gives them memory for it: to draw one
takes ten times as long as to copy it.

The memory is a file without a name, so that it goes with the last process that has it. An array's record there begins
at a multiple of ``PAGE``: the digest of its key and its length in bytes, and from the next page on its values. These
are written first: a process that ends in between leaves no record.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import struct

import numpy

VARIABLE = "OPDUEL_KEPT_ARRAYS"  # the file's descriptor and how many bytes it may get, as in "7,1000000"
LEAST = 1 << 18  # bytes of an array that is worth it
HEAD = struct.Struct("<32sQ")
PAGE = mmap.ALLOCATIONGRANULARITY


def kept_array(key, shape, dtype, make):
    """What ``make()`` returns; or a copy of what it returned before, in any process of the run, for the same ``key``.

    Kept is what has this ``shape`` and ``dtype``, which must follow from the key, is large enough, and has room.
    """
    place = os.environ.get(VARIABLE)
    if not place:
        return make()
    kept = Kept(*map(int, place.split(",")))
    digest = hashlib.sha256(key.encode("utf-8")).digest()
    with contextlib.suppress(OSError):  # a program that has the variable, but not the file; no memory
        found = kept.find(digest)
        if found:
            return kept.copy(found, shape, dtype)
    array = make()
    if array.nbytes >= LEAST and array.shape == shape and array.dtype == dtype:
        with contextlib.suppress(OSError):  # no memory is left: it is drawn each time
            kept.keep(digest, array)
    return array


class Kept:
    """The file, of at most so many bytes, as one process sees it."""

    def __init__(self, descriptor, most):
        self.descriptor, self.most = descriptor, most
        self.end = 0  # of the records seen so far

    def find(self, digest):
        """``(offset, bytes)`` of an array's values; None if it isn't there."""
        while True:
            head = os.pread(self.descriptor, HEAD.size, self.end)
            written, length = HEAD.unpack(head) if len(head) == HEAD.size else (b"", 0)
            if not length:
                return None
            start = self.end + PAGE
            self.end = start + -(-length // PAGE) * PAGE
            if written == digest:
                return start, length

    def copy(self, found, shape, dtype):
        """An array of the values there, with memory of its own."""
        start, length = found
        with contextlib.closing(mmap.mmap(self.descriptor, length, access=mmap.ACCESS_READ, offset=start)) as view:
            return numpy.frombuffer(bytearray(view), dtype).reshape(shape)

    def keep(self, digest, array):
        """Add an array, unless another process has just done so, or it is too much. Raises OSError."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            if self.find(digest) or self.end + PAGE + array.nbytes > self.most:
                return
            os.ftruncate(self.descriptor, self.end)  # what a process has left that ended in between
            left, offset = memoryview(array.tobytes()), self.end + PAGE
            while left:
                written = os.pwrite(self.descriptor, left, offset)
                left, offset = left[written:], offset + written
            os.pwrite(self.descriptor, HEAD.pack(digest, array.nbytes), self.end)
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)
