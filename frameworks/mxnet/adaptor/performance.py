"""Operators measured in the user's own process, as opperf does: what the opduel package runs inside a build.

Standard library, numpy and MXNet only, Python 3.6 syntax.
"""

import functools
import time
import types

import mxnet as mx
import numpy

from . import backward_call, both_call, call_of, forward_call, key_line
from .blocks import MODULES, block_class, constructor_parameters, is_block, mode_of
from .graphs import is_tensor
from .inputs import Inputs
from .networks import is_network, make_network_call
from .objects import is_object, object_class
from .operators import (
    ARRAYS,
    REGISTERED_PREFIXES,
    ROOTS,
    MissingOperator,
    argument_types,
    dotted,
    parameters_of,
    resolve,
    takes_dtype,
)
from .profiler import Profiler, device_name

STATISTICS = ("avg", "mean", "p50", "p90", "p99", "min", "max", "stdev")
NS_A_MS = 1e6
BYTES_A_KB = 1e3
MODEL_ZOO = "mxnet.gluon.model_zoo."
MODULE_ROOTS = {"ndarray": "nd", "numpy": "np", "numpy_extension": "npx", "image": "image"}
MAKE = {"backward": backward_call, "both": both_call}
UNSEEN = "MXNet's profiler saw no operator in it: it is Python code, or returns a view; use profiler='python'"
TOO_SHORT = "most calls are shorter than a tick (1 us) of MXNet's profiler: use profiler='python'"


@functools.lru_cache(maxsize=None)
def process_profiler():
    """The process's one profiler: MXNet writes all of a process's traces into one file."""
    return Profiler()


class Operator:
    """An operator as the API takes it: a function, a method, a Gluon block or its class, or the name of one."""

    def __init__(self, given):
        """Raises MissingOperator, and ValueError for what is no operator."""
        self.function = self.block = None  # neither: a network by name, or an object's use
        kind = given if isinstance(given, type) else type(given)
        if isinstance(given, str):
            self.name = given
            if is_object(given):
                object_class(given)
            elif is_block(given):
                self.block = block_class(given)
            elif not is_network(given):
                self.function = resolve(given)
        elif issubclass(kind, mx.gluon.Block):
            self.block, self.name = given, name_of_block(kind)
        elif not callable(given):
            raise ValueError("{!r} is no operator: give a function such as mx.nd.add, or its name".format(given))
        elif isinstance(given, types.FunctionType) and given.__module__.startswith(MODEL_ZOO):
            self.name = "model_zoo." + given.__name__
        else:
            self.function, self.name = given, name_of_function(given)
        self.short = self.name.rpartition(".")[2]

    @property
    def is_made(self):
        """Whether it is a block that has been made already."""
        return self.block is not None and not isinstance(self.block, type)

    @property
    def takes_dtype(self):
        """Whether it has an argument ``dtype`` of its own."""
        if self.block is not None:
            return not self.is_made and "dtype" in [one.name for one in constructor_parameters(self.block)]
        return self.function is not None and takes_dtype(self.name, self.function)

    def mode(self, asked):
        """How it ran: a block that is made runs as it is; None for a network, whose inputs say it."""
        if self.is_made:
            return mode_of(self.block)
        return None if is_network(self.name) else asked


def name_of_block(kind):
    """``gluon.nn.Dense`` for a block of Gluon's own; for any other ``gluon.`` and its name."""
    for module in MODULES:
        if getattr(dotted(mx.gluon, module), kind.__name__, None) is kind:
            return "gluon.{}.{}".format(module, kind.__name__)
    return "gluon." + kind.__name__


def name_of_function(function):
    """A function's name as a spec writes it, if it is known."""
    last = getattr(function, "__name__", type(function).__name__)
    for place in (*places(), *ARRAYS):
        if getattr(dotted(mx, place), last, None) is function:
            return place + "." + last
    parts = (getattr(function, "__module__", None) or "").split(".")
    return "{}.{}".format(MODULE_ROOTS.get(parts[1] if len(parts) > 1 else "", "nd"), last)


def places():
    """The modules that hold operators: ``nd``, ``nd.linalg``, ..."""
    inner = [name for name in REGISTERED_PREFIXES if name and name not in ROOTS]
    return list(ROOTS) + [root + "." + name for root in ROOTS for name in inner]


def measure(operator, arguments, settings, profiler, warmup, runs, seed):
    """One input, in each direction; ``opduel.run_performance_test`` has the keys of the result.

    ``settings``: "dtype", "context", "directions", "mode" and perhaps "initializer". Forward raises what it raises;
    what fails backward is in the result.
    """
    context = str(settings["context"] or "cpu")
    case = {
        "id": operator.name,
        "operator": operator.name,
        "direction": settings["directions"][-1],
        "inputs": {key: plain(value) for key, value in arguments.items()},
        "dtype": str(numpy.dtype(settings["dtype"])),
        "context": "cpu" if context == "cpu(0)" else context,
        "mode": settings["mode"],
        "files": {},
    }
    maker = Maker(case, seed, settings.get("initializer"))
    if operator.is_made:
        maker.numpy = numpy_semantics()[1]  # the block was made in it
    before = numpy_semantics()
    try:
        set_numpy_semantics(maker.numpy, maker.numpy)
        with maker.context:  # where operators that have no tensors make theirs
            result = in_each_direction(operator, case, maker, settings["directions"], profiler, warmup, runs)
    finally:
        set_numpy_semantics(*before)  # the process is the user's
    return dict(result, dtype=case["dtype"], context=case["context"], mode=operator.mode(case["mode"]))


def numpy_semantics():
    """Whether shapes, and arrays, are NumPy's at present."""
    return (mx.util.is_np_shape(), mx.util.is_np_array()) if hasattr(mx, "npx") else (False, False)


def set_numpy_semantics(shape, array):
    if hasattr(mx, "npx"):
        mx.npx.set_np(shape, array)


def in_each_direction(operator, case, maker, directions, profiler, warmup, runs):
    """The times and the memory; forward raises what it raises."""
    make_call = prepared(operator, case, maker)
    result, memory = {}, {device_name(maker.context): 0}
    for direction in directions:
        try:
            times, held, note = timed(make_call(direction), profiler, warmup, runs)
        except Exception as error:
            if direction == "forward":
                raise
            plain_line = isinstance(error, mx.base.MXNetError)
            result["failed_" + direction] = key_line(str(error)) if plain_line else described(error)
            continue
        result.update(statistics_of(times, direction, operator.short))
        if note:
            result["note_" + direction] = note
        memory = most_of([memory, held])
    result.update({"max_storage_mem_alloc_" + place: size / BYTES_A_KB for place, size in memory.items()})
    return result


def described(error):
    """An exception in one line, as the worker describes it."""
    name = type(error).__name__
    line = key_line(str(error)) if str(error).strip() else name
    return line if line.startswith(name) else "{}: {}".format(name, line)


def prepared(operator, case, maker):
    """A function that makes the synchronous call of a direction; the inputs are made here, once."""
    if operator.function is None and operator.block is None and is_network(operator.name):
        if not operator.name.startswith("model_zoo."):
            raise ValueError("{} comes from files: give the block itself, or a spec".format(operator.name))
        return lambda direction: make_network_call(dict(case, direction=direction), maker.seed)
    forward, backward, args, kwargs = call_of(case, maker, operator.function, operator.block)

    def make_call(direction):
        if direction == "forward":
            return forward_call(forward, args, kwargs)
        gradients = [gradient for _, gradient in maker.attach_gradients()]
        if not gradients:
            raise mx.base.MXNetError("no input is of floating point: there is no gradient")
        return MAKE[direction](backward, args, kwargs, gradients)

    return make_call


def timed(call, profiler, warmup, runs):
    """``(ns of each call, device -> bytes held at most, why there are no times)``.

    A workspace grows in the first call, if no call before it in this process had a larger one.
    """
    memory = [process_profiler().growth(call)] if warmup else []
    for _ in range(warmup - 1):
        call()
    mx.nd.waitall()
    if profiler == "native":
        calls = process_profiler().profile(call, runs)
        times = [sum(map(sum, one["operators"].values())) for one in calls]
        memory += [one["memory"] for one in calls]
        if numpy.median(times):
            return times, most_of(memory), None
        return [], most_of(memory), TOO_SHORT if any(one["operators"] for one in calls) else UNSEEN
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(1e9 * (time.perf_counter() - start))
    return times, most_of([*memory, process_profiler().growth(call)]), None


def most_of(calls):
    """The largest size of each device, of ``[{device: bytes}, ...]``."""
    most = {}
    for call in calls:
        for place, size in call.items():
            most[place] = max(size, most.get(place, 0))
    return most


def statistics_of(times, direction, name):
    """opperf's keys for one direction, in ms; None without times."""
    figures = [None] * len(STATISTICS)
    if times:
        values = numpy.array(times) / NS_A_MS
        stdev = values.std(ddof=1) if len(values) > 1 else 0.0
        quantiles = numpy.percentile(values, (50, 90, 99))
        figures = [values.mean(), values.mean(), *quantiles, values.min(), values.max(), stdev]
        figures = [round(float(value), 6) for value in figures]
    return {"{}_time_{}_{}".format(key, direction, name): value for key, value in zip(STATISTICS, figures)}


class Maker(Inputs):
    """The worker's way from plain data to arrays, with arrays as they are, and the user's initializer."""

    def __init__(self, case, seed, initializer):
        super(Maker, self).__init__(case, seed)
        self.initializer = initializer

    def arguments(self):
        args, kwargs = super(Maker, self).arguments()
        if self.case["operator"] == "nd.Custom":  # it hands on what it is given by name: to the operator's maker
            args += [kwargs.pop(key) for key in list(kwargs) if is_tensor(kwargs[key])]
        return args, kwargs

    def value(self, name, value, takes_tensor):
        if isinstance(value, numpy.ndarray):
            dtype = self.case["dtype"] if value.dtype.kind == "f" else value.dtype
            value = (mx.np if self.numpy else mx.nd).array(value, dtype=dtype, ctx=self.context)
        if not is_tensor(value):
            return super(Maker, self).value(name, value, takes_tensor)
        if name != "out":
            self.tensors[name] = value
        return value

    def tensor(self, name, shape, dtype=None, init=None, low=None, **more):
        says_its_values = init is not None or low is not None or more.get("stype") not in (None, "default")
        floating = numpy.dtype(dtype or self.case["dtype"]).kind == "f"
        if self.initializer is None or says_its_values or (dtype is not None and not floating):
            return super(Maker, self).tensor(name, shape, dtype, init, low, **more)
        if not callable(self.initializer):
            return super(Maker, self).tensor(name, shape, dtype, self.initializer, low, **more)
        tensor = initialized(self.initializer, tuple(shape), dtype or self.case["dtype"], self.context)
        self.tensors[name] = tensor.as_np_ndarray() if self.numpy else tensor
        self.gradients[name] = (more.get("grad_req") or "write", more.get("grad_stype"))
        return self.tensors[name]


def initialized(initializer, shape, dtype, context):
    """An array of this shape, by a function that takes shape, dtype and ctx."""
    try:
        return initializer(shape=shape, dtype=dtype, ctx=context)
    except mx.base.MXNetError:  # nd.normal makes no float16 or integers on its own
        return initializer(shape=shape, ctx=context).astype(dtype)


def plain(value):
    """Tuples as the lists that a spec has."""
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def shown(value):
    """An array as one line, ``<NDArray 2 @cpu(0)>``; anything else as it is."""
    return str(value).splitlines()[-1] if is_tensor(value) else value


def counterparts(name):
    """The operators of this name, in every namespace or in the one that it says: ``[(module, "nd.add"), ...]``.

    Raises MissingOperator: there is none.
    """
    root = name.partition(".")[0]
    names = [name] if root in ROOTS else ["{}.{}".format(root, name) for root in ROOTS]
    found = []
    for one in names:
        try:
            resolve(one)
        except MissingOperator:
            continue
        found.append((getattr(mx, one.partition(".")[0]), one))
    if not found:
        raise MissingOperator("mxnet {} has no operator {}".format(mx.__version__, name))
    return found


def arrays_of(name, size):
    """``{argument: size}`` for every array that the operator can't do without, as far as it says."""
    kinds = argument_types(name)
    parameters = parameters_of(resolve(name))
    if any(one.kind == one.VAR_POSITIONAL for one in parameters) and any("[]" in kind for kind in kinds.values()):
        return {"args": [size, size]}
    registered = [key for key, kind in kinds.items() if kind.startswith(("NDArray", "Symbol"))]
    required = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    arrays = [key for key in required if key in registered] or required or registered
    return dict.fromkeys(arrays, size)
