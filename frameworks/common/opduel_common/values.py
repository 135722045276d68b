"""Draw the values of tensors, as NumPy arrays within the range of their dtype; temporary files."""

import math
import os
import struct
import tempfile
import zlib

import numpy

MEMORY = "/dev/shm"  # the folder of temporary files, where it exists


def make_array(random, shape, dtype, init, low, high):
    """Return a NumPy array of ``shape``; without ``init``, floats are standard normal, integers uniform in [low, high).

    Raise ValueError if no number of this dtype lies in [low, high).
    """
    kind = numpy.dtype(dtype).kind
    init = init or ("normal" if kind == "f" else "randint")
    if init == "normal":
        array = random.normal(size=shape)
        array = array if kind == "f" else numpy.clip(array, *whole_range(dtype))
    elif init == "uniform" and kind == "f":
        array = random.uniform(0.0 if low is None else low, 1.0 if high is None else high, size=shape)
    elif init in ("uniform", "randint"):
        usual = 1 if init == "uniform" else 2 if kind == "b" else 10
        array = whole_numbers(random, shape, dtype, 0 if low is None else low, usual if high is None else high)
    elif init == "arange":
        array = numpy.arange(int(numpy.prod(shape))).reshape(shape)
    elif init == "positive_definite":
        root = random.normal(size=shape)
        array = numpy.eye(shape[-1]) + numpy.matmul(root, numpy.swapaxes(root, -1, -2)) / shape[-1]
    elif init == "png":
        array = encoded_picture(random.randint(0, 256, size=shape).astype("uint8"))
    elif init in ("zeros", "ones"):
        return getattr(numpy, init)(shape, dtype)
    else:
        raise ValueError(f"init {init!r} is not known")
    return numpy.asarray(array).astype(dtype)


def whole_numbers(random, shape, dtype, low, high):
    """Draw integers of [low, high) that the dtype holds exactly: of [0.5, 2) that is 1, never 0.

    Raise ValueError if there is none.
    """
    smallest, largest = whole_range(dtype)
    first, end = max(smallest, math.ceil(low)), min(largest + 1, math.ceil(high))
    if first >= end:
        raise ValueError(f"no {dtype} is at least {low} and below {high}: use another dtype, or another range")
    return random.randint(first, end, size=shape)


def whole_range(dtype):
    """Return the limits between which a dtype holds every integer exactly."""
    dtype = numpy.dtype(dtype)
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        largest = 2 ** (numpy.finfo(dtype).nmant + 1)
        return -largest, largest
    return int(numpy.iinfo(dtype).min), int(numpy.iinfo(dtype).max)


def draw_parameter(random, shape, is_scale):
    """Return values of a module's parameter, so scaled that outputs neither vanish nor explode."""
    if is_scale:
        return random.uniform(0.5, 1.5, size=tuple(shape))
    return random.normal(size=tuple(shape)) / numpy.sqrt(max(1, int(numpy.prod(shape[1:]))))


def draw_head_gradient(seed, case_id, number, shape):
    """Return random weights of an output's elements, since their plain sum hides much (softmax's is always 1)."""
    key = f"{seed}|{case_id}|head {number}"
    return numpy.random.RandomState(zlib.crc32(key.encode("utf-8")) & 0xFFFFFFFF).normal(size=tuple(shape))


def encoded_picture(pixels):
    """Return a PNG file of ``pixels`` (height, width, 3) as bytes, uncompressed so that every Python makes the same."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = pixels.shape[:2]
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", stored(lines)), chunk(b"IEND", b"")]
    return numpy.frombuffer(b"\x89PNG\r\n\x1a\n" + b"".join(parts), dtype="uint8")


def stored(content):
    """Return a zlib stream of ``content`` in stored blocks (RFC 1950, RFC 1951 3.2.4)."""
    body = b""
    for start in range(0, len(content), 0xFFFF):
        block = content[start : start + 0xFFFF]
        last = start + len(block) == len(content)
        body += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block
    return b"\x78\x01" + body + struct.pack(">I", zlib.adler32(content))


class HeldPath(str):
    """A path that keeps its unnamed file open: the file vanishes with the process, however that ends."""

    file = None


def file_holding(content):
    """Return the path of a new temporary file with ``content``: bytes, a function that writes to a path, or None."""
    handle = tempfile.TemporaryFile(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)  # noqa: SIM115 - the path keeps it
    path = HeldPath(f"/proc/self/fd/{handle.fileno()}")
    path.file = handle
    if isinstance(content, bytes):
        handle.write(content)
        handle.flush()
    elif content is not None:
        content(path)
    return path
