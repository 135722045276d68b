"""Draw the values of tensors, as NumPy arrays within the range of their dtype; temporary files."""

import math
import os
import struct
import tempfile
import zlib

import numpy

MEMORY = "/dev/shm"  # the folder of temporary files, where it exists
MOST_DRAWN = 1000003  # elements of an array; a prime, so that the rows of a matrix differ
LARGEST_DATE = 10**6  # of datetimes and timedeltas, in their own unit


def make_array(random, shape, dtype, init, low, high):
    """Return a NumPy array of ``shape``; without ``init``, floats are standard normal, or uniform in [low, high), and
    integers uniform in [low, high). Raise ValueError if no number of this dtype lies in [low, high), or if arrays of it
    can't be made."""
    dtype = numpy.dtype(dtype)
    if dtype.subdtype:
        return make_array(random, tuple(shape) + dtype.subdtype[1], dtype.subdtype[0], init, low, high)
    if dtype.names:
        array = numpy.zeros(shape, dtype)
        for name in dtype.names:
            array[name] = make_array(random, shape, dtype[name], init, low, high)
        return array
    if init in ("zeros", "ones"):
        return getattr(numpy, init)(shape, dtype)
    if init == "arange":
        array = numpy.arange(int(numpy.prod(shape))).reshape(shape)
    elif init == "positive_definite":
        root = elements(random, shape, "complex128" if dtype.kind == "c" else "float64", "normal", None, None)
        array = numpy.eye(shape[-1]) + numpy.matmul(root, numpy.conj(numpy.swapaxes(root, -1, -2))) / shape[-1]
    elif init == "png":
        array = encoded_picture(random.randint(0, 256, size=shape).astype("uint8"))
    elif init == "sorted":
        array = numpy.sort(elements(random, shape, dtype, None, low, high))
    elif init in ("symmetric", "hermitian"):
        array = mirrored(elements(random, shape, dtype, None, low, high), init == "hermitian")
    else:
        array = elements(random, shape, dtype, init, low, high)
    return numpy.asarray(array).astype(dtype)


def elements(random, shape, dtype, init, low, high):
    """Return an array of elements that are drawn one by one. A large one repeats MOST_DRAWN elements, since to draw a
    hundred million takes longer than a call. Raise as ``make_array``."""
    count = 1
    for size in shape:
        count *= size
    if count > MOST_DRAWN:
        return numpy.resize(elements(random, (MOST_DRAWN,), dtype, init, low, high), shape)
    dtype = numpy.dtype(dtype)
    kind = dtype.kind
    if kind == "c":
        real, imaginary = (elements(random, shape, dtype.type(0).real.dtype, init, low, high) for _ in range(2))
        return real + 1j * imaginary
    if kind in "SUT":
        return words(random, shape, dtype)
    is_real = kind in "fO"
    init = init or ("randint" if not is_real else "normal" if low is None else "uniform")
    if init == "normal":
        array = random.normal(size=shape)
        return array if is_real else numpy.clip(array, *whole_range(dtype))
    if init == "uniform" and is_real:
        return random.uniform(0.0 if low is None else low, 1.0 if high is None else high, size=shape)
    if init in ("uniform", "randint"):
        usual = 1 if init == "uniform" else 2 if kind == "b" else LARGEST_DATE if kind in "mM" else 10
        return whole_numbers(random, shape, dtype, 0 if low is None else low, usual if high is None else high)
    raise ValueError(f"init {init!r} is not known")


def words(random, shape, dtype):
    """Return texts of small letters that fill the dtype; of one without a length, of eight letters."""
    size = dtype.itemsize // (4 if dtype.kind == "U" else 1) if dtype.kind != "T" else 0
    letters = random.randint(ord("a"), ord("z") + 1, size=(*shape, size or 8)).astype("uint32")
    return letters.view(f"U{size or 8}")[..., 0]


def mirrored(array, conjugate):
    """Return the upper triangle of square matrices with its mirror image below it."""
    upper = numpy.triu(array, 1)
    diagonal = array * numpy.eye(array.shape[-1], dtype=bool)
    lower = numpy.swapaxes(upper, -1, -2)
    return upper + (diagonal.real + lower.conj() if conjugate else diagonal + lower)


def make_entries(random, shape, dtype, density, init, low, high):
    """Return rows, columns and values of a sparse matrix's elements, of which about a share ``density`` is stored.

    A positive definite one has a diagonal that dominates. Raise as ``make_array``.
    """
    width, total = max(1, shape[1]), shape[0] * shape[1]
    is_square = init in ("symmetric", "hermitian", "positive_definite")
    if density < 1 and total:
        draws = -math.log1p(-density) * total / (2 if is_square else 1)
        places = numpy.unique(random.randint(0, total, size=round(draws), dtype="int64"))
    else:
        places = numpy.arange(total)
    rows, columns = places // width, places % width
    if not is_square:
        return rows, columns, make_array(random, places.shape, dtype, init, low, high)
    places = numpy.unique(numpy.minimum(rows, columns) * width + numpy.maximum(rows, columns))
    rows, columns = places // width, places % width
    values = make_array(random, places.shape, dtype, None, low, high)
    below = rows != columns
    conjugate = numpy.asarray if init == "symmetric" else numpy.conj
    if init == "positive_definite":
        rows, columns, values = rows[below], columns[below], values[below]
        below = slice(None)
    elif init == "hermitian":
        values[~below] = values[~below].real
    rows, columns = numpy.concatenate([rows, columns[below]]), numpy.concatenate([columns, rows[below]])
    values = numpy.concatenate([values, conjugate(values[below])])
    if init == "positive_definite":
        sums = 1 + numpy.bincount(rows, numpy.abs(values), minlength=shape[0])
        rows, columns = (numpy.concatenate([part, numpy.arange(shape[0])]) for part in (rows, columns))
        values = numpy.concatenate([values, sums.astype(values.dtype)])
    return rows, columns, values


def whole_numbers(random, shape, dtype, low, high):
    """Draw integers of [low, high) that the dtype holds exactly: of [0.5, 2) that is 1, never 0. Raise ValueError if
    there is none."""
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
    if dtype.kind in "fcO":
        dtype = numpy.dtype("float64") if dtype.kind == "O" else dtype
        largest = 2 ** (numpy.finfo(dtype).nmant + 1)
        return -largest, largest
    if dtype.kind in "mM":
        dtype = numpy.dtype("int64")
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
