"""Call ONNX Runtime's C API by ctypes, in the shared library that wheels have beside the Python module from 1.19 on.

Its functions are at fixed places of a table, which later releases only extend (https://onnxruntime.ai/docs/api/c/).
"""

import ctypes
import glob
import os

import onnxruntime

from opduel_common.names import MissingOperator

from .messages import says_absent

VERSION = 17  # of the API, which came with release 1.17
POINTER, SIZE, NUMBER, TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
OUT, POINTERS, TEXTS = (ctypes.POINTER(pointer_type) for pointer_type in (POINTER, POINTER, TEXT))
# A function's place in the table, and its arguments; it returns a status, which is null on success.
FUNCTIONS = {
    "CreateEnv": (3, NUMBER, TEXT, OUT),
    "CreateSession": (7, POINTER, TEXT, POINTER, OUT),
    "CreateSessionFromArray": (8, POINTER, TEXT, SIZE, POINTER, OUT),
    "Run": (9, POINTER, POINTER, TEXTS, POINTERS, SIZE, TEXTS, SIZE, POINTERS),
    "CreateSessionOptions": (10, OUT),
    "SetSessionExecutionMode": (13, POINTER, NUMBER),
    "DisableMemPattern": (17, POINTER),
    "SetSessionLogSeverityLevel": (22, POINTER, NUMBER),
    "SetSessionGraphOptimizationLevel": (23, POINTER, NUMBER),
    "SetIntraOpNumThreads": (24, POINTER, NUMBER),
    "SetInterOpNumThreads": (25, POINTER, NUMBER),
    "CreateTensorWithDataAsOrtValue": (
        *(49, POINTER, POINTER, SIZE),
        *(ctypes.POINTER(ctypes.c_int64), SIZE, NUMBER, OUT),
    ),
    "CreateCpuMemoryInfo": (69, NUMBER, NUMBER, OUT),
    "CreateValue": (82, POINTERS, SIZE, NUMBER, OUT),
    "AddSessionConfigEntry": (130, POINTER, TEXT, TEXT),
    "RegisterAllocator": (176, POINTER, POINTER),
}
GET_ERROR_MESSAGE, RELEASE_STATUS, RELEASE_VALUE = 2, 93, 96  # these return no status


class Base(ctypes.Structure):
    _fields_ = [("get_api", ctypes.CFUNCTYPE(POINTER, ctypes.c_uint32)), ("get_version", POINTER)]


class Api:
    """The API's functions by their names."""

    def __init__(self):
        """Raise ValueError if the build has no such library."""
        folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
        libraries = sorted(glob.glob(os.path.join(folder, "libonnxruntime.so.*")))
        if not libraries:
            raise ValueError(
                f"memory: ONNX Runtime {onnxruntime.__version__} has no libonnxruntime.so beside its Python module, "
                "as wheels have from 1.19 on: use process_memory"
            )
        base = ctypes.CDLL(libraries[0]).OrtGetApiBase
        base.restype = ctypes.POINTER(Base)
        self.table = ctypes.cast(base().contents.get_api(VERSION), ctypes.POINTER(POINTER))

    def function(self, place, returned, *types):
        return ctypes.CFUNCTYPE(returned, *types)(self.table[place])

    def call(self, name, *arguments):
        """Call a function. Raise MissingOperator or RuntimeError with the message of its status."""
        status = self.function(FUNCTIONS[name][0], POINTER, *FUNCTIONS[name][1:])(*arguments)
        if not status:
            return
        message = self.function(GET_ERROR_MESSAGE, TEXT, POINTER)(status).decode("utf-8", "replace")
        self.function(RELEASE_STATUS, None, POINTER)(status)
        raise (MissingOperator if says_absent(message) else RuntimeError)(message)

    def create(self, name, *arguments):
        """Return the object that a function writes to its last argument. Raise as ``call`` does."""
        result = POINTER()
        self.call(name, *arguments, ctypes.byref(result))
        return result

    def release(self, value):
        self.function(RELEASE_VALUE, None, POINTER)(value)
