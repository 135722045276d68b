"""Where a call's time is in native code: which instruction this thread executes, sampled by the kernel's clock.

Linux's perf_event_open(2) with its software clock: no counters of the processor are needed, and a process may look at
its own user code unless ``perf_event_paranoid`` is above 2.  Code runs as it does otherwise, for any instruction set.
Standard library and Python 3.6 syntax only, as main.py.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import resource
import struct
import sys
import time

from opduel_serving import Unseen
from opduel_timing import divided, repeat

NUMBERS = {"x86_64": 298, "aarch64": 241}  # of the system call, by machine
SOFTWARE, CPU_CLOCK = 1, 0  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
IP = 1  # PERF_SAMPLE_IP
DISABLED, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
ENABLE, DISABLE = 0x2400, 0x2401
SIZE = 112  # bytes of the attributes: PERF_ATTR_SIZE_VER5
PERIOD_NS = 100000
LONG_PERIOD_NS = 1000000  # of a single call, which may be so long that the ring would be full
RECORD_SAMPLE = 9
PAGES = 64  # of the ring of samples, a power of 2
HEAD, TAIL = 1024, 1032  # places in the ring's first page
REGIONS = 64


class Clock:
    """Samples of this thread's instructions, between ``start`` and ``stop``: ``counts``, address -> how many."""

    def __init__(self, period_ns):
        number = NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
        if number is None:
            raise Unseen("code can't be sampled on {} ({})".format(sys.platform, platform.machine()))
        attributes = bytearray(SIZE)
        struct.pack_into("<IIQQQ", attributes, 0, SOFTWARE, SIZE, CPU_CLOCK, period_ns, IP)
        struct.pack_into("<Q", attributes, 40, DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR)
        libc = ctypes.CDLL(None, use_errno=True)
        pointer = (ctypes.c_char * SIZE).from_buffer(attributes)
        nothing = ctypes.c_long(-1)
        self.file = libc.syscall(ctypes.c_long(number), pointer, ctypes.c_long(0), nothing, nothing, ctypes.c_long(0))
        if self.file < 0:
            raise Unseen("the kernel gives no samples: " + os.strerror(ctypes.get_errno()))
        try:
            self.ring = mmap.mmap(self.file, (1 + PAGES) * mmap.PAGESIZE)
        except (OSError, ValueError) as error:
            os.close(self.file)
            raise Unseen("the kernel gives no samples: {}".format(error)) from None
        self.counts = {}

    def start(self):
        fcntl.ioctl(self.file, ENABLE, 0)

    def stop(self):
        """Stop, and take what has been sampled out of the ring."""
        fcntl.ioctl(self.file, DISABLE, 0)
        (head,) = struct.unpack_from("<Q", self.ring, HEAD)
        (tail,) = struct.unpack_from("<Q", self.ring, TAIL)
        size = PAGES * mmap.PAGESIZE
        while tail < head:  # every record has a multiple of 8 bytes: its header and the address are whole
            place = mmap.PAGESIZE + tail % size
            kind, _, length = struct.unpack_from("<IHH", self.ring, place)
            if kind == RECORD_SAMPLE:
                at = mmap.PAGESIZE + (tail + 8) % size
                (address,) = struct.unpack_from("<Q", self.ring, at)
                self.counts[address] = self.counts.get(address, 0) + 1
            tail += max(length, 8)
        struct.pack_into("<Q", self.ring, TAIL, head)

    def close(self):
        self.ring.close()
        os.close(self.file)


def user_seconds():
    """Seconds of processor time that this thread has spent in user code."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    total_s = used.ru_utime + used.ru_stime
    share = used.ru_utime / total_s if total_s else 1.0
    return share * time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def places(counts):
    """[path, place in that file, samples] of addresses; the path is empty for code that is of no file."""
    mapped = []
    with open("/proc/self/maps") as stream:
        for line in stream:
            fields = line.split(None, 5)
            if "x" in fields[1]:
                first, last = (int(address_text, 16) for address_text in fields[0].split("-"))
                path = fields[5].strip() if len(fields) > 5 else ""
                mapped.append((first, last, int(fields[2], 16), path if path.startswith("/") else ""))
    samples_by_place = {}
    for address, count in counts.items():
        for first, last, offset, path in mapped:
            if first <= address < last:
                key = (path, address - first + offset if path else 0)
                break
        else:
            key = ("", 0)
        samples_by_place[key] = samples_by_place.get(key, 0) + count
    return [[path, place, count] for (path, place), count in sorted(samples_by_place.items())]


def samples(call, calls, number, before, after):
    """Samples of about ``calls`` calls: main.py says what is answered, and functions.py what the arguments are."""
    clock = Clock(PERIOD_NS if calls > 1 else LONG_PERIOD_NS)
    try:
        regions, number = divided(calls, REGIONS, number)
        spent = 0.0
        for _ in range(regions):
            before()
            start = user_seconds()
            clock.start()
            repeat(call, number, after)
            clock.stop()
            spent += user_seconds() - start
        return {"calls": regions * number, "ns": 1e9 * spent / (regions * number), "samples": places(clock.counts)}
    finally:
        clock.close()
