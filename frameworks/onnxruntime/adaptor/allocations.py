"""What a session allocates in a call: by an allocator of ours, through which the session gets all its memory.

The API's own way for that is an allocator that is registered with the environment, and sessions with the option
``session.use_env_allocators`` (https://onnxruntime.ai/docs/get-started/with-c.html).  The Python module registers none
of ours, so the session is made by the C API (capi.py), of the same release, with the same options.
"""

import ctypes
import functools
import os
import threading

import numpy

from .capi import POINTER, SIZE, TEXT, VERSION, Api
from .prepare import Prepared
from .sessions import FATAL_ONLY, session_options

ALIGNMENT = 64  # bytes, as ONNX Runtime's own allocator has it
DEVICE_ALLOCATOR, DEFAULT_MEMORY, SEQUENCE = 0, 0, 2  # values of the API's enumerations
UNSETTABLE = ("enable_mem_reuse", "use_deterministic_compute")  # by the functions that capi.py has
# ONNX's numbers of NumPy's dtypes.
ELEMENTS = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9}
ELEMENTS.update(float16=10, float64=11, uint32=12, uint64=13, complex64=14, complex128=15)
ALLOC, FREE = ctypes.CFUNCTYPE(POINTER, POINTER, SIZE), ctypes.CFUNCTYPE(None, POINTER, POINTER)


class Allocator(ctypes.Structure):
    """The API's OrtAllocator of that version."""

    _fields_ = [
        *(("version", ctypes.c_uint32), ("alloc", ALLOC), ("free", FREE)),
        *(("info", ctypes.CFUNCTYPE(POINTER, POINTER)), ("reserve", POINTER)),
    ]


class Counter:
    """Gives out memory, and keeps count of the bytes that are asked for."""

    def __init__(self):
        self.libc = ctypes.CDLL(None)
        self.libc.aligned_alloc.restype, self.libc.aligned_alloc.argtypes = POINTER, [SIZE, SIZE]
        self.libc.free.argtypes = [POINTER]
        self.sizes = {}  # by address
        self.held = self.most = 0
        self.lock = threading.Lock()  # threads of the session's pool allocate, too

    def alloc(self, _, size):
        if not size:
            return None
        address = self.libc.aligned_alloc(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        if address:
            with self.lock:
                self.sizes[address] = size
                self.held += size
                self.most = max(self.most, self.held)
        return address

    def free(self, _, address):
        if address:
            with self.lock:
                self.held -= self.sizes.pop(address)
            self.libc.free(address)


class Environment:
    """An environment whose sessions get their memory from a counter."""

    def __init__(self):
        """Raises ValueError: the build has no C API."""
        self.api, self.counter = Api(), Counter()
        self.info = self.api.made("CreateCpuMemoryInfo", DEVICE_ALLOCATOR, DEFAULT_MEMORY)
        kinds = dict(Allocator._fields_)
        self.allocator = Allocator(
            VERSION, ALLOC(self.counter.alloc), FREE(self.counter.free), kinds["info"](lambda _: self.info.value)
        )
        self.environment = self.api.made("CreateEnv", FATAL_ONLY, b"opduel")
        self.api.call("RegisterAllocator", self.environment, ctypes.byref(self.allocator))

    def session(self, prepared):
        """A session of a case. Raises MissingOperator; RuntimeError; ValueError."""
        options = self.options(prepared)
        if isinstance(prepared.model, bytes):
            arguments = ("CreateSessionFromArray", self.environment, prepared.model, len(prepared.model), options)
        else:
            arguments = ("CreateSession", self.environment, os.fsencode(prepared.model), options)
        return self.api.made(*arguments)

    def options(self, prepared):
        """The same options as those of a session of the Python module. Raises ValueError: one can't be set."""
        for name in UNSETTABLE:
            if name in prepared.options:
                raise ValueError("session.{}: can't be set where memory is measured: leave it out".format(name))
        said, api = session_options(prepared.options, prepared.is_network), self.api
        found = api.made("CreateSessionOptions")
        api.call("SetSessionLogSeverityLevel", found, FATAL_ONLY)
        api.call("SetSessionGraphOptimizationLevel", found, int(said.graph_optimization_level))
        api.call("SetSessionExecutionMode", found, int(said.execution_mode))
        api.call("SetIntraOpNumThreads", found, said.intra_op_num_threads)
        api.call("SetInterOpNumThreads", found, said.inter_op_num_threads)
        if not said.enable_mem_pattern:
            api.call("DisableMemPattern", found)
        spinning = ["session.{}.allow_spinning".format(pool) for pool in ("intra_op", "inter_op")]
        entries = {name: said.get_session_config_entry(name) for name in [*spinning, *prepared.options] if "." in name}
        for name, value in dict(entries, **{"session.use_env_allocators": "1"}).items():
            api.call("AddSessionConfigEntry", found, name.encode("utf-8"), value.encode("utf-8"))
        return found

    def value(self, name, array):
        """An input, on NumPy's own memory. Raises ValueError for strings."""
        if isinstance(array, list):
            parts = [self.value(name, one) for one in array]
            return self.api.made("CreateValue", (POINTER * len(parts))(*parts), len(parts), SEQUENCE)
        if array.dtype.name not in ELEMENTS:
            raise ValueError("{}: memory isn't measured with strings as inputs: leave it out".format(name))
        shape, element = (ctypes.c_int64 * array.ndim)(*array.shape), ELEMENTS[array.dtype.name]
        where = (self.info, array.ctypes.data, array.nbytes)
        return self.api.made("CreateTensorWithDataAsOrtValue", *where, shape, array.ndim, element)

    def most_in_run(self, session, feeds, outputs):
        """The most bytes that were held at once in a call, beyond those before it; ``feeds``: values by name."""
        names = (TEXT * len(feeds))(*[name.encode("utf-8") for name in feeds])
        wanted = (TEXT * len(outputs))(*[name.encode("utf-8") for name in outputs])
        given, made = (POINTER * len(feeds))(*feeds.values()), (POINTER * len(outputs))()
        before = self.counter.most = self.counter.held
        self.api.call("Run", session, None, names, given, len(feeds), wanted, len(outputs), made)
        for one in made:
            self.api.release(one)
        return self.counter.most - before


@functools.lru_cache(maxsize=None)
def environment():
    """The one environment of this process: no second allocator can be registered."""
    return Environment()


def memory(case, seed, calls):
    """``{device: bytes}``: the most that the session held at once in a call, outputs included, beyond what it had
    before; the median over so many calls.

    Raises ValueError: the build has no C API, or the case something that isn't measured by it; as ``make_call``.
    """
    prepared = Prepared(case, seed)
    outputs = [one.name for one in prepared.session().get_outputs()]
    here = environment()
    arrays = contiguous(prepared.feeds)
    session = here.session(prepared)
    feeds = {name: here.value(name, one) for name, one in arrays.items()}
    here.most_in_run(session, feeds, outputs)  # a session plans its memory in the first call
    found = sorted(here.most_in_run(session, feeds, outputs) for _ in range(calls))
    return {"cpu/0": found[len(found) // 2]}


def contiguous(feeds):
    """The same arrays, each in one piece of memory; they must live as long as the values that are made on them."""
    return {
        name: [numpy.ascontiguousarray(part) for part in one] if isinstance(one, list) else numpy.ascontiguousarray(one)
        for name, one in feeds.items()
    }
