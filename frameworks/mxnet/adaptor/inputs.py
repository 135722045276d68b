"""A case's plain data as the operator's arguments: tensors whose values come from the seed."""

import re
import zlib

import mxnet as mx
import numpy

from . import large
from .operators import argument_types

# The namespaces that need numpy semantics switched on.
NUMPY_ROOTS = ("np", "npx")
# States that an operator updates in place: no gradient flows to them.
AUXILIARY = re.compile(r"^moving_(mean|var|inv_var)$")


def is_shape(value):
    return isinstance(value, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in value)


class Inputs:
    """Turns a case's plain data into the operator's arguments."""

    def __init__(self, case, seed):
        self.case = case
        self.seed = seed
        self.numpy = case["operator"].split(".")[0] in NUMPY_ROOTS
        self.context = make_context(case["context"])
        self.types = argument_types(case["operator"])
        self.tensors = {}
        self.whole = set()  # names of those that hold whole numbers: indices, labels, lengths

    def arguments(self):
        """``(args, kwargs)`` for the operator's Python function."""
        large.check(self.tensors_to_make(), self.case["direction"])
        args, kwargs = [], {}
        for name, value in self.case["inputs"].items():
            if name == "args":  # a variadic operator's tensors
                args = [self.value(f"args{i}", item, True) for i, item in enumerate(value)]
            else:
                kwargs[name] = self.value(name, value, self.takes_tensor(name))
        return args, kwargs

    def tensors_to_make(self):
        """``[(name, shape, dtype, whether all zeros or ones)]`` of every tensor, before any is made."""
        found = []

        def note(name, value, takes_tensor):
            if isinstance(value, dict) and "value" not in value:
                plain = value.get("init") in ("zeros", "ones")
                found.append((name, value["shape"], value.get("dtype") or self.case["dtype"], plain))
            elif takes_tensor and is_shape(value):
                found.append((name, value, self.case["dtype"], False))
            elif takes_tensor and isinstance(value, list):
                for item in value:
                    note(name, item, True)

        for name, value in self.case["inputs"].items():
            note(name, value, name == "args" or self.takes_tensor(name))
        return found

    def takes_tensor(self, name):
        if name in self.types:
            return self.types[name].startswith(("NDArray", "Symbol"))
        # Python wrappers (nd.add, nd.random.normal) have no registered types.
        return name not in ("shape", "axis", "axes", "size", "scale", "loc", "low", "high")

    def value(self, name, value, takes_tensor):
        if isinstance(value, dict) and "value" in value:
            return as_attribute(value["value"])
        if isinstance(value, dict):
            return self.tensor(name, **value)
        if takes_tensor and is_shape(value):
            return self.tensor(name, value)
        if takes_tensor and isinstance(value, list):
            return [self.value(f"{name}{i}", item, True) for i, item in enumerate(value)]
        return as_attribute(value)

    def tensor(self, name, shape, dtype=None, init=None, low=None, high=None):
        """A tensor whose values depend on the seed, the case and the argument's name alone."""
        dtype = dtype or self.case["dtype"]
        key = f"{self.seed}|{self.case['id']}|{name}"
        random = numpy.random.RandomState(zlib.crc32(key.encode("utf-8")) & 0xFFFFFFFF)
        array = make_array(random, tuple(shape), dtype, init, low, high)
        module = mx.np if self.numpy else mx.nd
        tensor = module.array(array, dtype=dtype, ctx=self.context)
        self.tensors[name] = tensor
        if init == "randint":
            self.whole.add(name)
        return tensor

    def differentiable(self):
        """The tensors that gradients are asked of: floating point, no states, and no indices beside other tensors."""
        found = [
            (name, tensor)
            for name, tensor in self.tensors.items()
            if numpy.dtype(tensor.dtype).kind == "f" and not AUXILIARY.match(name)
        ]
        return [tensor for name, tensor in found if name not in self.whole] or [tensor for _, tensor in found]


def as_attribute(value):
    return tuple(as_attribute(item) for item in value) if isinstance(value, list) else value


def make_context(text):
    kind, _, index = text.rstrip(")").partition("(")
    return mx.Context(kind, int(index or 0))


def make_array(random, shape, dtype, init, low, high):
    """A numpy array of ``shape``; floats are standard normal, integers uniform in [low, high) unless told."""
    floating = numpy.dtype(dtype).kind == "f"
    init = init or ("normal" if floating else "randint")
    if init == "normal":
        array = random.normal(size=shape)
    elif init == "uniform":
        array = random.uniform(0.0 if low is None else low, 1.0 if high is None else high, size=shape)
    elif init == "randint":
        top = (2 if numpy.dtype(dtype).kind == "b" else 10) if high is None else high
        array = random.randint(0 if low is None else low, top, size=shape)
    elif init == "arange":
        array = numpy.arange(int(numpy.prod(shape))).reshape(shape)
    elif init == "positive_definite":
        root = random.normal(size=shape)
        array = numpy.eye(shape[-1]) + numpy.matmul(root, numpy.swapaxes(root, -1, -2)) / shape[-1]
    elif init in ("zeros", "ones"):
        return getattr(numpy, init)(shape, dtype)
    else:
        raise ValueError(f"init {init!r} is not known")
    return numpy.asarray(array).astype(dtype)
