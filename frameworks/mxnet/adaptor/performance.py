"""Measure operators in the user's own process, as opperf does; the opduel package runs it inside a build.

Standard library, numpy and MXNet only, Python 3.6 syntax.
"""

import functools
import time
import types

import mxnet as mx
import numpy

from opduel_common.names import MissingOperator, constructor_names
from opduel_common.scripts import list_arguments

from . import key_line, resolve_case
from .blocks import MODULES, block_class, is_block, mode_of
from .calls import MAKE_CALL
from .graphs import is_tensor
from .inputs import Inputs
from .networks import is_network, make_network_call
from .objects import is_object, object_class
from .operators import ARRAYS, REGISTERED_PREFIXES, ROOTS, argument_types, dotted, parameters_of, resolve, takes_dtype
from .profiler import Profiler, device_name

STATISTICS = ("avg", "mean", "p50", "p90", "p99", "min", "max", "stdev")
NS_A_MS = 1e6
BYTES_A_KB = 1e3
MODEL_ZOO = "mxnet.gluon.model_zoo."
MODULE_ROOTS = {"ndarray": "nd", "numpy": "np", "numpy_extension": "npx", "image": "image"}
UNSEEN = "MXNet's profiler saw no operator in it: it is Python code, or returns a view; use profiler='python'"
TOO_SHORT = "most calls are shorter than a tick (1 us) of MXNet's profiler: use profiler='python'"


@functools.lru_cache(maxsize=None)
def process_profiler():
    """Return the process's only profiler: MXNet writes all of a process's traces into one file."""
    return Profiler()


class Operator:
    """An operator for the API: a function, a method, a Gluon block or its class, or the name of one."""

    def __init__(self, operator):
        """Raise MissingOperator, or ValueError if it isn't an operator."""
        self.function = self.block = None  # both None for a network by name, or an object's use
        kind = operator if isinstance(operator, type) else type(operator)
        if isinstance(operator, str):
            self.name = operator
            if is_object(operator):
                object_class(operator)
            elif is_block(operator):
                self.block = block_class(operator)
            elif not is_network(operator):
                self.function = resolve(operator)
        elif issubclass(kind, mx.gluon.Block):
            self.block, self.name = operator, name_of_block(kind)
        elif not callable(operator):
            raise ValueError(f"{operator!r} is no operator: give a function such as mx.nd.add, or its name")
        elif isinstance(operator, types.FunctionType) and operator.__module__.startswith(MODEL_ZOO):
            self.name = "model_zoo." + operator.__name__
        else:
            self.function, self.name = operator, name_of_function(operator)
        self.short = self.name.rpartition(".")[2]

    @property
    def is_made(self):
        """Whether it is an existing block."""
        return self.block is not None and not isinstance(self.block, type)

    @property
    def takes_dtype(self):
        """Whether it has an argument ``dtype``."""
        if self.block is not None:
            return not self.is_made and "dtype" in constructor_names(self.block)
        return self.function is not None and takes_dtype(self.name, self.function)

    def mode(self, requested_mode):
        """Return the mode in which it ran: an existing block has its own; None for a network, whose inputs say it."""
        if self.is_made:
            return mode_of(self.block)
        return None if is_network(self.name) else requested_mode


def name_of_block(kind):
    """Return ``gluon.nn.Dense`` for a block of Gluon's own, or ``gluon.`` and its name for any other."""
    for module in MODULES:
        if getattr(dotted(mx.gluon, module), kind.__name__, None) is kind:
            return f"gluon.{module}.{kind.__name__}"
    return "gluon." + kind.__name__


def name_of_function(function):
    """Return a function's name in specs, or one that looks like it."""
    last = getattr(function, "__name__", type(function).__name__)
    inner = [name for name in REGISTERED_PREFIXES if name and name not in ROOTS]
    for place in (*ROOTS, *(f"{root}.{name}" for root in ROOTS for name in inner), *ARRAYS):
        if getattr(dotted(mx, place), last, None) is function:
            return place + "." + last
    parts = (getattr(function, "__module__", None) or "").split(".")
    return f"{MODULE_ROOTS.get(parts[1] if len(parts) > 1 else '', 'nd')}.{last}"


def measure(operator, arguments, settings, profiler, warmup, runs, seed):
    """Measure one input in each direction; ``opduel.run_performance_test`` documents the keys of the result.

    ``settings``: "dtype", "context", "directions", "mode" and perhaps "initializer". Raise what forward raises; errors
    of backward are in the result.
    """
    context = str(settings["context"] or "cpu")
    case = {
        "id": operator.name,
        "operator": operator.name,
        "direction": settings["directions"][-1],
        "inputs": {key: tuples_to_lists(value) for key, value in arguments.items()},
        "dtype": str(numpy.dtype(settings["dtype"])),
        "context": "cpu" if context == "cpu(0)" else context,
        "mode": settings["mode"],
        "files": {},
    }
    maker = Maker(case, seed, settings.get("initializer"))
    if operator.is_made:
        maker.numpy = numpy_semantics()[1]  # in which the block was made
    before = numpy_semantics()
    try:
        set_numpy_semantics(maker.numpy, maker.numpy)
        with maker.context:  # for operators without tensor arguments
            result = measure_directions(operator, case, maker, settings["directions"], profiler, warmup, runs)
    finally:
        set_numpy_semantics(*before)  # the process is the user's
    return dict(result, dtype=case["dtype"], context=case["context"], mode=operator.mode(case["mode"]))


def numpy_semantics():
    """Return whether shapes, and arrays, now have NumPy's semantics."""
    return (mx.util.is_np_shape(), mx.util.is_np_array()) if hasattr(mx, "npx") else (False, False)


def set_numpy_semantics(shape, array):
    if hasattr(mx, "npx"):
        mx.npx.set_np(shape, array)


def measure_directions(operator, case, maker, directions, profiler, warmup, runs):
    """Return the times and the memory of each direction; raise what forward raises."""
    make_call = prepare_calls(operator, case, maker)
    result, memory = {}, {device_name(maker.context): 0}
    for direction in directions:
        try:
            times, peaks, note = time_calls(make_call(direction), profiler, warmup, runs)
        except Exception as error:
            if direction == "forward":
                raise
            plain_line = isinstance(error, mx.base.MXNetError)
            result["failed_" + direction] = key_line(str(error)) if plain_line else describe_error(error)
            continue
        result.update(statistics_of(times, direction, operator.short))
        if note:
            result["note_" + direction] = note
        memory = peaks_by_device([memory, peaks])
    result.update({"max_storage_mem_alloc_" + place: size / BYTES_A_KB for place, size in memory.items()})
    return result


def describe_error(error):
    """Return an exception as one line, like the worker's."""
    name = type(error).__name__
    line = key_line(str(error)) if str(error).strip() else name
    return line if line.startswith(name) else f"{name}: {line}"


def prepare_calls(operator, case, maker):
    """Make the inputs, and return a function that makes the synchronous call of a direction."""
    if operator.function is None and operator.block is None and is_network(operator.name):
        if not operator.name.startswith("model_zoo."):
            raise ValueError(f"{operator.name} comes from files: give the block itself, or a spec")
        return lambda direction: make_network_call(dict(case, direction=direction), maker.seed)
    forward, backward, args, kwargs = resolve_case(case, maker, operator.function, operator.block)

    def make_call(direction):
        if direction == "forward":
            return MAKE_CALL[direction](forward, args, kwargs)
        gradients = [gradient for _, gradient in maker.attach_gradients()]
        if not gradients:
            raise mx.base.MXNetError("no input is of floating point: there is no gradient")
        return MAKE_CALL[direction](backward, args, kwargs, gradients)

    return make_call


def time_calls(call, profiler, warmup, runs):
    """Return ``(ns of each call, {device: peak bytes}, why there are no times or None)``.

    The first call may grow a workspace, so its memory counts, too.
    """
    memory = [process_profiler().growth(call)] if warmup else []
    for _ in range(warmup - 1):
        call()
    mx.nd.waitall()
    if profiler == "native":
        calls = process_profiler().profile(call, runs)
        times = [sum(map(sum, call_profile["operators"].values())) for call_profile in calls]
        peaks = peaks_by_device(memory + [call_profile["memory"] for call_profile in calls])
        if numpy.median(times):
            return times, peaks, None
        return [], peaks, TOO_SHORT if any(call_profile["operators"] for call_profile in calls) else UNSEEN
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(1e9 * (time.perf_counter() - start))
    return times, peaks_by_device([*memory, process_profiler().growth(call)]), None


def peaks_by_device(calls):
    """Return the largest size of each device in ``[{device: bytes}, ...]``."""
    devices = dict.fromkeys(device for call in calls for device in call)
    return {device: max(call.get(device, 0) for call in calls) for device in devices}


def statistics_of(times, direction, name):
    """Return opperf's statistics of one direction, in ms; None without times."""
    figures = [None] * len(STATISTICS)
    if times:
        values = numpy.array(times) / NS_A_MS
        stdev = values.std(ddof=1) if len(values) > 1 else 0.0
        quantiles = numpy.percentile(values, (50, 90, 99))
        figures = [values.mean(), values.mean(), *quantiles, values.min(), values.max(), stdev]
        figures = [round(float(value), 6) for value in figures]
    return {f"{key}_time_{direction}_{name}": value for key, value in zip(STATISTICS, figures)}


class Maker(Inputs):
    """The Inputs of the user's own process: arrays may be given, and the user's initializer may fill shapes."""

    def __init__(self, case, seed, initializer):
        super().__init__(case, seed)
        self.initializer = initializer

    def arguments(self):
        args, kwargs = super().arguments()
        if self.case["operator"] == "nd.Custom":  # it passes keyword arguments to the operator's constructor
            args += [kwargs.pop(key) for key in list(kwargs) if is_tensor(kwargs[key])]
        return args, kwargs

    def value(self, name, plain):
        if isinstance(plain, numpy.ndarray):
            dtype = self.case["dtype"] if plain.dtype.kind == "f" else plain.dtype
            plain = (mx.np if self.numpy else mx.nd).array(plain, dtype=dtype, ctx=self.context)
        if not is_tensor(plain):
            return super().value(name, plain)
        if name != "out":
            self.tensors[name] = plain
        return plain

    def array(self, name, plain):
        has_values = any(plain.get(key) is not None for key in ("init", "low"))
        has_values = has_values or plain.get("stype") not in (None, "default")
        dtype = plain.get("dtype") or self.case["dtype"]
        is_integer = plain.get("dtype") is not None and numpy.dtype(dtype).kind != "f"
        if self.initializer is None or has_values or is_integer:
            return super().array(name, plain)
        if not callable(self.initializer):
            return super().array(name, dict(plain, init=self.initializer))
        tensor = call_initializer(self.initializer, tuple(plain["shape"]), dtype, self.context)
        self.tensors[name] = tensor.as_np_ndarray() if self.numpy else tensor
        self.gradients[name] = (plain.get("grad_req") or "write", plain.get("grad_stype"))
        return self.tensors[name]


def call_initializer(initializer, shape, dtype, context):
    """Return an array from a function that takes shape, dtype and ctx."""
    try:
        return initializer(shape=shape, dtype=dtype, ctx=context)
    except mx.base.MXNetError:  # nd.normal makes neither float16 nor integers
        return initializer(shape=shape, ctx=context).astype(dtype)


def tuples_to_lists(value):
    """Return a value with lists in place of tuples, as in a spec."""
    return [tuples_to_lists(item) for item in value] if isinstance(value, (tuple, list)) else value


def array_as_line(value):
    """Return an array as one line, ``<NDArray 2 @cpu(0)>``, and any other value as it is."""
    return str(value).splitlines()[-1] if is_tensor(value) else value


def operators_by_name(name):
    """Return the operators of this name in all namespaces, or in its own if it has one: ``[(module, "nd.add"), ...]``.
    Raise MissingOperator if there is none."""
    names = [name] if name.partition(".")[0] in ROOTS else [f"{root}.{name}" for root in ROOTS]
    operators = []
    for qualified_name in names:
        try:
            resolve(qualified_name)
        except MissingOperator:
            continue
        operators.append((getattr(mx, qualified_name.partition(".")[0]), qualified_name))
    if not operators:
        raise MissingOperator(f"mxnet {mx.__version__} has no operator {name}")
    return operators


def required_arrays(name, size):
    """Return ``{argument: size}`` for every array that the operator requires."""
    kinds = argument_types(name)
    parameters = parameters_of(resolve(name))
    takes_any_number = any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters)
    if takes_any_number and any("[]" in kind for kind in kinds.values()):
        return {"args": [size, size]}
    registered = [key for key, kind in kinds.items() if kind.startswith(("NDArray", "Symbol"))]
    named = list_arguments(parameter for parameter in parameters if parameter.kind == parameter.POSITIONAL_OR_KEYWORD)
    required = [key for key, needed in named if needed == "required"]
    return dict.fromkeys([key for key in required if key in registered] or required or registered, size)
