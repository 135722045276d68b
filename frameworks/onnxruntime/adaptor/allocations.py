"""Measure what a session allocates in a call, by an allocator of our own that counts.

The API supports this by an allocator that is registered with the environment, and the session option
``session.use_env_allocators`` (https://onnxruntime.ai/docs/get-started/with-c.html).  The Python module can't register
one, so the session is made by the C API (capi.py) of the same release, with the same options.
"""

import ctypes
import functools
import os
import threading

import numpy

from opduel_common.peaks import middle

from .capi import POINTER, SIZE, TEXT, VERSION, Api
from .prepare import Prepared
from .sessions import FATAL_ONLY, session_options

ALIGNMENT = 64  # bytes, as in ONNX Runtime's own allocator
DEVICE_ALLOCATOR, DEFAULT_MEMORY, SEQUENCE = 0, 0, 2  # values of the API's enumerations
UNSETTABLE = ("enable_mem_reuse", "use_deterministic_compute")  # capi.py has no functions for these
# ONNX's numbers of NumPy's dtypes.
ELEMENTS = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9}
ELEMENTS.update(float16=10, float64=11, uint32=12, uint64=13, complex64=14, complex128=15)
ALLOC, FREE = ctypes.CFUNCTYPE(POINTER, POINTER, SIZE), ctypes.CFUNCTYPE(None, POINTER, POINTER)


class Allocator(ctypes.Structure):
    """The C API's struct OrtAllocator."""

    _fields_ = [
        *(("version", ctypes.c_uint32), ("alloc", ALLOC), ("free", FREE)),
        *(("info", ctypes.CFUNCTYPE(POINTER, POINTER)), ("reserve", POINTER)),
    ]


class Counter:
    """An allocator that counts the bytes that are allocated now, and their peak."""

    def __init__(self):
        self.libc = ctypes.CDLL(None)
        self.libc.aligned_alloc.restype, self.libc.aligned_alloc.argtypes = POINTER, [SIZE, SIZE]
        self.libc.free.argtypes = [POINTER]
        self.sizes = {}  # by address
        self.allocated = self.peak = 0
        self.lock = threading.Lock()  # threads of the session's pool allocate, too

    def alloc(self, _, size):
        if not size:
            return None
        address = self.libc.aligned_alloc(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        if address:
            with self.lock:
                self.sizes[address] = size
                self.allocated += size
                self.peak = max(self.peak, self.allocated)
        return address

    def free(self, _, address):
        if address:
            with self.lock:
                self.allocated -= self.sizes.pop(address)
            self.libc.free(address)


class Environment:
    """An environment whose sessions get their memory from a ``Counter``."""

    def __init__(self):
        """Raise ValueError if the build has no C API."""
        self.api, self.counter = Api(), Counter()
        self.arrays = []  # on whose memory values are made
        self.info = self.api.create("CreateCpuMemoryInfo", DEVICE_ALLOCATOR, DEFAULT_MEMORY)
        kinds = dict(Allocator._fields_)
        self.allocator = Allocator(
            VERSION, ALLOC(self.counter.alloc), FREE(self.counter.free), kinds["info"](lambda _: self.info.value)
        )
        self.environment = self.api.create("CreateEnv", FATAL_ONLY, b"opduel")
        self.api.call("RegisterAllocator", self.environment, ctypes.byref(self.allocator))

    def session(self, prepared):
        """Return a session of a case. Raise MissingOperator, RuntimeError, ValueError."""
        options = self.options(prepared)
        if isinstance(prepared.model, bytes):
            arguments = ("CreateSessionFromArray", self.environment, prepared.model, len(prepared.model), options)
        else:
            arguments = ("CreateSession", self.environment, os.fsencode(prepared.model), options)
        return self.api.create(*arguments)

    def options(self, prepared):
        """Return the options that a session of the Python module has. Raise ValueError if one can't be set."""
        for name in UNSETTABLE:
            if name in prepared.options:
                raise ValueError(f"session.{name}: can't be set where memory is measured: leave it out")
        session_settings, api = session_options(prepared.options, prepared.is_network), self.api
        options = api.create("CreateSessionOptions")
        api.call("SetSessionLogSeverityLevel", options, FATAL_ONLY)
        api.call("SetSessionGraphOptimizationLevel", options, int(session_settings.graph_optimization_level))
        api.call("SetSessionExecutionMode", options, int(session_settings.execution_mode))
        api.call("SetIntraOpNumThreads", options, session_settings.intra_op_num_threads)
        api.call("SetInterOpNumThreads", options, session_settings.inter_op_num_threads)
        if not session_settings.enable_mem_pattern:
            api.call("DisableMemPattern", options)
        session_settings.add_session_config_entry("session.use_env_allocators", "1")
        spinning = [f"session.{pool}.allow_spinning" for pool in ("intra_op", "inter_op")]
        for name in (*spinning, "session.use_env_allocators", *(name for name in prepared.options if "." in name)):
            value = session_settings.get_session_config_entry(name)
            api.call("AddSessionConfigEntry", options, name.encode("utf-8"), value.encode("utf-8"))
        return options

    def value(self, name, array):
        """Return an input on NumPy's own memory. Raise ValueError for strings."""
        if isinstance(array, list):
            parts = [self.value(name, part) for part in array]
            return self.api.create("CreateValue", (POINTER * len(parts))(*parts), len(parts), SEQUENCE)
        if array.dtype.name not in ELEMENTS:
            raise ValueError(f"{name}: memory isn't measured with strings as inputs: leave it out")
        array = numpy.asarray(array, order="C")
        self.arrays.append(array)
        shape, element = (ctypes.c_int64 * array.ndim)(*array.shape), ELEMENTS[array.dtype.name]
        memory_arguments = (self.info, array.ctypes.data, array.nbytes)
        return self.api.create("CreateTensorWithDataAsOrtValue", *memory_arguments, shape, array.ndim, element)

    def peak_of_run(self, session, feeds, outputs):
        """Run once with ``feeds``, values by name; return the peak of allocated bytes beyond those before the call."""
        names = (TEXT * len(feeds))(*[name.encode("utf-8") for name in feeds])
        output_names = (TEXT * len(outputs))(*[name.encode("utf-8") for name in outputs])
        input_values, output_values = (POINTER * len(feeds))(*feeds.values()), (POINTER * len(outputs))()
        before = self.counter.peak = self.counter.allocated
        self.api.call("Run", session, None, names, input_values, len(feeds), output_names, len(outputs), output_values)
        for value in output_values:
            self.api.release(value)
        return self.counter.peak - before


@functools.lru_cache(maxsize=None)
def environment():
    """Return the only environment of this process, since no second allocator can be registered."""
    return Environment()


def memory(case, seed, calls):
    """Return ``{device: bytes}``: the peak that a session allocates in a call, outputs included; the median of calls.
    Raise ValueError if the build has no C API, or the case can't be measured by it; otherwise as ``make_call`` does."""
    prepared = Prepared(case, seed)
    outputs = [output.name for output in prepared.session().get_outputs()]
    counting_environment = environment()
    session = counting_environment.session(prepared)
    feeds = {name: counting_environment.value(name, array) for name, array in prepared.feeds.items()}
    counting_environment.peak_of_run(session, feeds, outputs)  # the session plans its memory in the first call
    return {"cpu/0": middle(counting_environment.peak_of_run(session, feeds, outputs) for _ in range(calls))}
