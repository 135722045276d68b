"""Operators measured in the user's own process, as opperf does: what the opduel package runs inside a build.

Standard library, numpy and MXNet only, Python 3.6 syntax.
"""

import functools
import inspect
import time

import mxnet as mx
import numpy

from . import backward_call, both_call, forward_call, telling_line
from .inputs import NUMPY_ROOTS, Inputs, make_array, make_context
from .operators import MissingOperator, argument_types, resolve
from .profiler import Profiler, device_name

STATISTICS = ("avg", "mean", "p50", "p90", "p99", "min", "max", "stdev")
OWN_KEYS = ("dtype", "run_backward", "initializer", "data_initializer", "case")
NS_A_MS = 1e6
BYTES_A_KB = 1e3
DIRECTIONS = {"forward": ("forward",), "backward": ("forward", "backward")}
UNSEEN = "MXNet's profiler saw no operator in it: it is Python code, or returns a view; use profiler='python'"
TOO_SHORT = "most calls are shorter than a tick (1 us) of MXNet's profiler: use profiler='python'"
NAMESPACES = ("nd", "np", "npx")
ROOTS = {"ndarray": "nd", "numpy": "np", "numpy_extension": "npx"}


@functools.lru_cache(maxsize=None)
def process_profiler():
    """The process's one profiler: MXNet writes all of a process's traces into one file."""
    return Profiler()


def performance(operator, inputs, run_backward, dtype, ctx, profiler, warmup, runs, seed):
    """``{name: [a result for each input]}``; ``opduel.run_performance_test`` has the keys."""
    function, name = named(operator)
    results = []
    for index, given in enumerate(inputs):
        wanted = {key: given[key] for key in OWN_KEYS if key in given}
        arguments = {key: value for key, value in given.items() if key not in OWN_KEYS}
        settings = Settings(dtype, ctx, wanted, seed + index)
        directions = DIRECTIONS["backward" if wanted.get("run_backward", run_backward) else "forward"]
        result = measure(function, name, arguments, settings, directions, profiler, warmup, runs)
        result["inputs"] = {key: shown(value) for key, value in given.items()}
        results.append(result)
    return {name.rpartition(".")[2]: results}


class Settings:
    """How one input's tensors are made."""

    def __init__(self, dtype, ctx, wanted, seed):
        self.dtype = str(numpy.dtype(wanted.get("dtype", dtype)))
        self.context = make_context(ctx) if isinstance(ctx, str) else (ctx or mx.cpu())
        self.initializer = wanted.get("initializer", wanted.get("data_initializer"))
        self.seed = seed


def named(operator):
    """The function, and its name as a spec writes it, as far as that can be told."""
    if isinstance(operator, str):
        return resolve(operator), operator
    if isinstance(operator, mx.gluon.Block):
        return operator, "nd." + type(operator).__name__
    if not callable(operator):
        raise ValueError("{!r} is no operator: give a function such as mx.nd.add, or its name".format(operator))
    parts = (getattr(operator, "__module__", None) or "").split(".")
    root = ROOTS.get(parts[1] if len(parts) > 1 else "", "nd")
    return operator, "{}.{}".format(root, operator.__name__)


def measure(function, name, arguments, settings, directions, profiler, warmup, runs):
    """One input, each direction; forward raises what it raises, a failing backward is told."""
    if hasattr(mx, "npx"):
        (mx.npx.set_np if name.split(".")[0] in NUMPY_ROOTS else mx.npx.reset_np)()
    operator, args, kwargs, tensors = bound(function, name, arguments, settings)
    result, memory = {}, {device_name(settings.context): 0}
    short = name.rpartition(".")[2]
    for direction in directions:
        try:
            call = call_of(direction, operator, args, kwargs, tensors)
            times, held, note = timed(call, profiler, warmup, runs)
        except mx.base.MXNetError as error:
            if direction == "forward":
                raise
            result["failed_" + direction] = telling_line(str(error))
            continue
        result.update(statistics_of(times, direction, short))
        if note:
            result["note_" + direction] = note
        memory = most_of([memory, held])
    result.update({"max_storage_mem_alloc_" + device: size / BYTES_A_KB for device, size in memory.items()})
    return result


def call_of(direction, operator, args, kwargs, tensors):
    """One synchronous call; backward raises MXNetError if there is nothing to take a gradient of."""
    if direction == "forward":
        return forward_call(operator, args, kwargs)
    floating = [tensor for tensor in tensors if numpy.dtype(tensor.dtype).kind == "f"]
    if not floating:
        raise mx.base.MXNetError("no input is of floating point: there is no gradient")
    for tensor in floating:
        tensor.attach_grad()
    make = {"backward": backward_call, "both": both_call}[direction]
    return make(operator, args, kwargs, [tensor.grad for tensor in floating])


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
        for device, size in call.items():
            most[device] = max(size, most.get(device, 0))
    return most


def statistics_of(times, direction, name):
    """opperf's keys for one direction, in ms; None without times."""
    figures = dict.fromkeys(STATISTICS)
    if times:
        values = numpy.array(times) / NS_A_MS
        figures = {
            "avg": values.mean(),
            "mean": values.mean(),
            "p50": numpy.percentile(values, 50),
            "p90": numpy.percentile(values, 90),
            "p99": numpy.percentile(values, 99),
            "min": values.min(),
            "max": values.max(),
            "stdev": values.std(ddof=1) if len(values) > 1 else 0.0,
        }
    found = {key: None if value is None else round(float(value), 6) for key, value in figures.items()}
    return {"{}_time_{}_{}".format(key, direction, name): value for key, value in found.items()}


def bound(function, name, arguments, settings):
    """``(operator, args, kwargs, tensors)``: a call's arguments, and those of them that are arrays."""
    if is_block(function):
        return bound_block(function, arguments, settings)
    case = {
        "id": name,
        "operator": name,
        "direction": "forward",
        "inputs": {key: plain(value) for key, value in arguments.items() if not is_array(value)},
        "dtype": settings.dtype,
        "context": str(settings.context),
    }
    maker = Maker(case, settings)
    args, kwargs = maker.arguments()
    kwargs.update({key: value for key, value in arguments.items() if is_array(value)})
    if function is mx.nd.Custom:  # it hands on what it is given by name: to the operator's maker, arrays too
        args += [kwargs.pop(key) for key in arguments if is_array(kwargs.get(key))]
    given = [value for key, value in arguments.items() if is_array(value) and key != "out"]
    return function, args, kwargs, [maker.tensors[key] for key in maker.differentiable()] + given


def is_block(function):
    """Whether it is a Gluon layer or network, or a class of them."""
    kind = function if isinstance(function, type) else type(function)
    return issubclass(kind, mx.gluon.Block)


def bound_block(block, arguments, settings):
    """A Gluon layer: it is called with what ``forward`` takes (``data`` first), a class is made with the rest."""
    kind = block if isinstance(block, type) else type(block)
    hybrid = issubclass(kind, mx.gluon.HybridBlock) and kind.forward is mx.gluon.HybridBlock.forward
    forward = kind.hybrid_forward if hybrid else kind.forward
    called_with = [name for name in inspect.signature(forward).parameters if name not in ("self", "F")]
    aliases = {"data": called_with[0]} if called_with and "data" not in called_with else {}
    kwargs = {key: value for key, value in arguments.items() if aliases.get(key, key) not in called_with}
    layer = block
    if isinstance(block, type):
        layer = block(**kwargs)
        layer.initialize(ctx=settings.context)
        layer.cast(settings.dtype)
    tensors = [
        value if is_array(value) else initialized(key, value, settings)
        for key, value in arguments.items()
        if aliases.get(key, key) in called_with
    ]
    return layer, tensors, {}, tensors


class Maker(Inputs):
    """The worker's way from plain data to arrays, with the user's initializer."""

    def __init__(self, case, settings):
        super(Maker, self).__init__(case, settings.seed)
        self.settings = settings

    def tensor(self, name, shape, dtype=None, init=None, **bounds):
        initializer = self.settings.initializer
        if init is None and callable(initializer):
            tensor = initialized(name, shape, self.settings)
            self.tensors[name] = tensor
            return tensor
        return super(Maker, self).tensor(name, shape, dtype, init or initializer, **bounds)


def initialized(name, shape, settings):
    """An array of this shape, by the initializer: a function that takes shape, dtype and ctx, or a spec's word."""
    shape = tuple(shape)
    if callable(settings.initializer):
        try:
            return settings.initializer(shape=shape, dtype=settings.dtype, ctx=settings.context)
        except mx.base.MXNetError:  # nd.normal makes no float16 or integers on its own
            return settings.initializer(shape=shape, ctx=settings.context).astype(settings.dtype)
    array = make_array(numpy.random.RandomState(settings.seed), shape, settings.dtype, settings.initializer, None, None)
    return mx.nd.array(array, dtype=settings.dtype, ctx=settings.context)


def is_array(value):
    return isinstance(value, mx.nd.NDArray)


def plain(value):
    """Tuples as the lists that a spec has."""
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def shown(value):
    """An array as one line, ``<NDArray 2 @cpu(0)>``; anything else as it is."""
    return str(value).splitlines()[-1] if is_array(value) else value


def counterparts(name):
    """The namespaces that have an operator of this name: ``[(module, "nd.add"), ...]``.

    Raises MissingOperator: none has.
    """
    found = [
        (getattr(mx, root), "{}.{}".format(root, name))
        for root in NAMESPACES
        if hasattr(mx, root) and callable(getattr(getattr(mx, root), name, None))
    ]
    if not found:
        raise MissingOperator("mxnet {} has no operator {}".format(mx.__version__, name))
    return found


def arrays_of(name, size):
    """``{argument: size}`` for every array that the operator can't do without, as far as it says."""
    registered = [key for key, kind in argument_types(name).items() if kind.startswith(("NDArray", "Symbol"))]
    parameters = inspect.signature(resolve(name)).parameters.values()
    required = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    arrays = [key for key in required if key in registered] or required or registered
    return dict.fromkeys(arrays, size)
