"""Share input arrays between the processes of a run: to draw an array takes ten times as long as to copy it.

The controller provides the memory, a file without a name that vanishes with the last process that has it open. Each
record begins at a multiple of ``PAGE``: the digest of the array's key and its length in bytes, then, from the next page
on, its values. The values are written first, so that a process that dies while it writes leaves no record.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import struct

import numpy

VARIABLE = "OPDUEL_KEPT_ARRAYS"  # the file's descriptor and its largest size in bytes, as in "7,1000000"
SMALLEST = 1 << 18  # bytes of an array that is worth sharing
HEAD = struct.Struct("<32sQ")
PAGE = mmap.ALLOCATIONGRANULARITY


def shared_array(key, shape, dtype, make):
    """Return ``make()``, or a copy of what it returned for the same ``key`` in any process of the run.

    An array is stored if it has this ``shape`` and ``dtype``, which must follow from the key, and is large enough.
    """
    place = os.environ.get(VARIABLE)
    if not place:
        return make()
    store = SharedArrays(*map(int, place.split(",")))
    digest = hashlib.sha256(key.encode("utf-8")).digest()
    with contextlib.suppress(OSError):  # a program that has the variable but not the file, or no memory
        location = store.find(digest)
        if location:
            return store.copy(location, shape, dtype)
    array = make()
    if array.nbytes >= SMALLEST and array.shape == shape and array.dtype == dtype:
        with contextlib.suppress(OSError):  # no memory is left: draw it each time
            store.keep(digest, array)
    return array


class SharedArrays:
    """The shared file, of at most ``max_bytes``, as one process has read it so far."""

    def __init__(self, descriptor, max_bytes):
        self.descriptor, self.max_bytes = descriptor, max_bytes
        self.end = 0  # offset behind the last record read

    def find(self, digest):
        """Return ``(offset, bytes)`` of an array's values, or None if it isn't stored."""
        while True:
            head = os.pread(self.descriptor, HEAD.size, self.end)
            written, length = HEAD.unpack(head) if len(head) == HEAD.size else (b"", 0)
            if not length:
                return None
            start = self.end + PAGE
            self.end = start + -(-length // PAGE) * PAGE
            if written == digest:
                return start, length

    def copy(self, location, shape, dtype):
        """Return an array with a copy of the values."""
        start, length = location
        with contextlib.closing(mmap.mmap(self.descriptor, length, access=mmap.ACCESS_READ, offset=start)) as view:
            return numpy.frombuffer(bytearray(view), dtype).reshape(shape)

    def keep(self, digest, array):
        """Store an array, unless another process has just done so or there is no room. Raise OSError."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            if self.find(digest) or self.end + PAGE + array.nbytes > self.max_bytes:
                return
            os.ftruncate(self.descriptor, self.end)  # remove what a process left that died while it wrote
            remaining, offset = memoryview(array.tobytes()), self.end + PAGE
            while remaining:
                written = os.pwrite(self.descriptor, remaining, offset)
                remaining, offset = remaining[written:], offset + written
            os.pwrite(self.descriptor, HEAD.pack(digest, array.nbytes), self.end)
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)
