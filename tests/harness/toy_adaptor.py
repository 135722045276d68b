"""A worker-side adaptor whose operators fail in every way that a framework does, and take a known time otherwise.

It stands in for MXNet where the point is the worker, not the operator; real MXNet is in test_mxnet_*.py.

With ``TOY_CLOCK=simulated`` the worker's clock stands still but for what a call is said to take. A round then needs a
tenth of the time, and its values don't depend on what else the machine does.
"""

import array
import ctypes
import json
import mmap
import os
import random
import signal
import sys
import time
import zlib

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from simulated_clock import simulated_clock

CLOCK = simulated_clock()
TURN_NS = 30.0
LEFT_BEHIND = []


class MissingOperator(Exception):
    kind = "missing"


def versions():
    if os.environ.get("TOY_IMPORT") == "sleeps":
        time.sleep(60)
    if os.environ.get("TOY_IMPORT") == "dies":
        sys.stderr.write("cannot import toy: no such library\n")
        sys.exit(1)
    return {"framework": "1.0"}


def work(turns):
    total = 0
    for value in range(turns):
        total += value
    return total


def profile(call, calls):
    """``TOY_OPERATORS`` says what a call runs, ``TOY_PROFILING_S`` how long it takes to find that out."""
    time.sleep(float(os.environ.get("TOY_PROFILING_S", "0")))
    return [{"operators": json.loads(os.environ.get("TOY_OPERATORS", '{"toy_work": [1000]}'))} for _ in range(calls)]


def write_profile(call, calls, folder, name):
    """A trace that says how often the call was made, and what the environment is; ``TOY_PROFILE`` says what fails."""
    wrong = os.environ.get("TOY_PROFILE")
    print(f"profiling {name}")
    os.write(2, b"and something from C\n")
    if wrong == "abort":
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGABRT)
    if wrong == "refuse":
        raise ValueError("no profiler here")
    if wrong == "sleep":
        time.sleep(300)
    for _ in range(calls):
        call()
    with open(os.path.join(folder, "trace.json"), "w") as stream:
        json.dump({"calls": calls, "environment": dict(os.environ), "name": name}, stream)


def memory(case, seed, calls):
    """``TOY_BYTES`` says what a call needs, on either side: ``control,treatment``; by device with colons between."""
    make_call(case, seed)()
    needed = os.environ["TOY_BYTES"].split(",")[os.environ["TOY_SIDE"] == "treatment"]
    return {f"cpu/{number}": int(part) for number, part in enumerate(needed.split(":"))}


def value(case, seed):
    """``TOY_REPORTS``, on either side: ``control,treatment``."""
    make_call(case, seed)()
    return json.loads(os.environ["TOY_REPORTS"].split(",")[os.environ["TOY_SIDE"] == "treatment"])


def results(case, seed, folder, limit):
    """The ``numbers`` of the case, some ``off`` on the treatment: always, or only once (``once`` is a file to leave).

    ``dtype`` and ``shape`` may differ there, too; ``random`` numbers differ from process to process.
    """
    make_call(case, seed)
    inputs, treatment = case["inputs"], os.environ["TOY_SIDE"] == "treatment"
    numbers = [float(number) for number in inputs.get("numbers", [1, 2, 3])]
    once = inputs.get("once")
    if treatment and not (once and os.path.exists(once)):
        off = inputs.get("off", [0] * len(numbers))
        numbers = [number + float(off[place]) for place, number in enumerate(numbers)]
        if once:
            open(once, "w").close()
    if inputs.get("random"):
        numbers[0] = float(os.getpid())
    limited = numbers[: limit // 8]
    with open(os.path.join(folder, "0.bin"), "wb") as stream:
        array.array("d", limited).tofile(stream)
    shape = inputs["shape"] if treatment and "shape" in inputs else [len(numbers)]
    description = {"name": "output", "dtype": "<f8", "storage": "default", "file": "0.bin", "count": len(limited)}
    arrays = [dict(description, shape=shape)]
    if treatment and inputs.get("more"):
        arrays.append(dict(description, shape=shape, name="gradient"))
    return arrays


def digest(case, seed):
    """What the inputs' values come to: another one where ``TOY_VALUES`` says so."""
    return "{}|{}|{}".format(case["id"], seed, os.environ.get("TOY_VALUES", ""))


def make_call(case, seed):
    """``operator`` says what happens; ``TOY_SIDE`` (a build's own variable) lets it happen on one side alone."""
    inputs, name = case["inputs"], case["operator"]
    side = os.environ.get("TOY_SIDE", "")
    if inputs.get("only_on") not in (None, side):
        name = "work"
    if name == "variable":
        raise ValueError(f"{inputs['asked']} is {os.environ.get(inputs['asked'])}")
    if name == "missing":
        raise MissingOperator("toy 1.0 has no operator nd.gone")
    if name == "refuse":
        raise ValueError("Shapes (2,) and (3,)\nincompatible")
    if name == "segfault_like_exit":
        os.write(2, b"\nSegmentation fault: 11\n\nStack trace: ...\n")
        os._exit(255)
    if name == "no_memory":
        return bytearray(1 << 62)
    if name == "no_memory_in_native_code":
        ctypes.CDLL("libstdc++.so.6")._Znwm(ctypes.c_size_t(1 << 62))  # operator new, whose exception nobody catches
    if name == "abort":
        os.kill(os.getpid(), signal.SIGABRT)
    if name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hang":
        os.write(1, b"going to sleep\n")
        time.sleep(1000)
    if name == "flood":
        os.write(1, b"the first words\n")
        for _ in range(1024):
            os.write(1, b"y\n" * 16384)
        os.write(1, b"going to sleep\n")
        time.sleep(1000)
    if name == "garbage":
        os.write(1, b'{"ns": [1]}\n\x00\xff\xfe not JSON \x1b[31m' * 100)
    if name == "remember":
        if LEFT_BEHIND:
            raise ValueError("something was left behind")
        LEFT_BEHIND.append(name)
    if name in ("refuse_later", "hang_later"):
        calls = []

        def fail_later():
            calls.append(1)
            if len(calls) > 20:
                if name == "hang_later":
                    time.sleep(1000)
                raise ValueError("the twenty-first call is too many")
            CLOCK.spin(200_000) if CLOCK else time.sleep(0.002)

        return fail_later
    if name == "sleep":

        def sleep():
            time.sleep(inputs["seconds"])
            if CLOCK:
                CLOCK.take(1e9 * inputs["seconds"])

        return sleep
    if name == "checksum":
        data = bytes(int(inputs["bytes"] * (inputs.get("slower", 1) if side == "treatment" else 1)))
        return lambda: zlib.crc32(data)
    if name == "checksums":  # the treatment calls another function, too
        data = bytes(inputs["bytes"])
        return (lambda: (zlib.crc32(data), zlib.adler32(data))) if side == "treatment" else lambda: zlib.crc32(data)
    if name in ("allocates", "maps"):  # on the treatment, or on both sides
        blocks = inputs["blocks"] if side == "treatment" or inputs.get("on_both") else 0
        return lambda: [
            bytearray(inputs["bytes"]) if name == "allocates" else mmap.mmap(-1, inputs["bytes"]).close()
            for _ in range(blocks)
        ]
    if name == "touches":  # all pages of a file, or of anonymous or shared memory, on the treatment; else one
        size = inputs["bytes"] if side == "treatment" else mmap.PAGESIZE
        flags = {"anonymous": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, "shared": mmap.MAP_SHARED | mmap.MAP_ANONYMOUS}
        with open(inputs["file"], "rb") as file:
            if inputs["pages"] == "file":
                area = mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ)
            else:
                area = mmap.mmap(-1, size, flags[inputs["pages"]])
                area.write(file.read(size))
        return lambda: (area[:: mmap.PAGESIZE], CLOCK and CLOCK.take(1e6))
    if name == "strides":  # as many bytes, each from a line of the cache of its own on the treatment
        step = 64 if side == "treatment" else 2
        spread = memoryview(bytes(step * inputs["bytes"]))[::step]
        return lambda: bytes(spread)
    if name == "vector":  # of 512 bits: vxorps zmm0, zmm0, zmm0; ret
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes.fromhex("62f17c4857c0c3"))
        LEFT_BEHIND.append(code)
        return ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    turns = inputs.get("turns", 2000)
    if random.Random(os.getpid()).random() < 0.5:
        turns = int(turns * inputs.get("mode", 1))  # of about every second process
    if side == "treatment" and os.path.exists(inputs.get("slower_while", __file__)):
        turns = int(turns * inputs.get("slower", 1))
    return (lambda: CLOCK.take(turns * TURN_NS)) if CLOCK else (lambda: work(turns))
