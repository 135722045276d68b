"""A case's plain data as the operator's arguments: tensors whose values come from the seed."""

import re
import struct
import zlib

import mxnet as mx
import numpy

from . import large
from .operators import argument_types

# The namespaces that need numpy semantics switched on.
NUMPY_ROOTS = ("np", "npx")
DENSITY = 0.1  # of sparse tensors that say none
# States that an operator updates in place: no gradient flows to them.
AUXILIARY = re.compile(r"^moving_(mean|var|inv_var)$")


def is_shape(value):
    return isinstance(value, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in value)


ASKED = ("write", None)  # grad_req and grad_stype where nothing is said


class Inputs:
    """Turns a case's plain data into the operator's arguments."""

    def __init__(self, case, seed):
        self.case = case
        self.seed = seed
        self.numpy = case["operator"].split(".")[0] in NUMPY_ROOTS
        self.context = make_context(case["context"])
        self.types = argument_types(case["operator"])
        self.tensors = {}
        self.parameters = {}  # of a Gluon block: name -> those that are trained
        self.gradients = {}  # name -> (grad_req, grad_stype) of those that say one
        self.whole = set()  # names of those that hold whole numbers: indices, labels, lengths

    def arguments(self):
        """``(args, kwargs)`` for the operator's Python function."""
        large.check(self.tensors_to_make(), self.case["direction"])
        args, kwargs, same = [], {}, {}
        for name, value in self.case["inputs"].items():
            if name == "args":  # without a name, such as a variadic operator's tensors
                args = [self.value(f"args{i}", item, True) for i, item in enumerate(value)]
            elif isinstance(value, dict) and "same_as" in value:
                same[name] = value["same_as"]
            else:
                kwargs[name] = self.value(name, value, self.takes_tensor(name))
        kwargs.update((name, kwargs[other]) for name, other in same.items())
        if "self" in kwargs:  # of a method
            args.insert(0, kwargs.pop("self"))
        return args, kwargs

    def tensors_to_make(self):
        """``[(name, shape, dtype, whether all zeros or ones)]`` of every tensor, before any is made."""
        found = []

        def note(name, value, takes_tensor):
            if isinstance(value, dict) and "shape" in value:
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
        if isinstance(value, dict) and "index" in value:
            return as_subscript(value["index"])
        if isinstance(value, dict) and "context" in value:
            return make_context(value["context"])
        if isinstance(value, dict):
            return self.tensor(name, **value)
        if takes_tensor and is_shape(value):
            return self.tensor(name, value)
        if takes_tensor and isinstance(value, list):
            return [self.value(f"{name}{i}", item, True) for i, item in enumerate(value)]
        return as_attribute(value)

    def tensor(self, name, shape, dtype=None, init=None, low=None, high=None, **stored):
        """A tensor whose values depend on the seed, the case and the argument's name alone.

        ``stored``: ``stype``, ``density``, ``grad_stype`` and ``grad_req``, as a spec says them.
        """
        dtype = "uint8" if init == "png" else dtype or self.case["dtype"]
        random = self.random(name)
        array = make_array(random, tuple(shape), dtype, init, low, high)
        stype = stored.get("stype") or "default"
        if stype != "default":
            if self.numpy:
                raise ValueError(f"{name}: np has no {stype} tensors")
            tensor = sparse_tensor(random, array, stype, stored.get("density", DENSITY), self.context)
        else:
            module = mx.np if self.numpy else mx.nd
            tensor = module.array(array, dtype=dtype, ctx=self.context)
        self.tensors[name] = tensor
        self.gradients[name] = (
            stored.get("grad_req") or ("null" if stype == "csr" else "write"),
            stored.get("grad_stype"),
        )
        if init == "randint":
            self.whole.add(name)
        return tensor

    def random(self, name):
        """Random numbers that depend on the seed, the case and the name alone."""
        key = f"{self.seed}|{self.case['id']}|{name}"
        return numpy.random.RandomState(zlib.crc32(key.encode("utf-8")) & 0xFFFFFFFF)

    def attach_gradients(self):
        """``(name, gradient)`` of the differentiable tensors, and of a block's parameters."""
        found = []
        for name in self.differentiable():
            request, stype = self.gradients.get(name, ASKED)
            if name in self.gradients or self.tensors[name].grad is None:  # a user's array may have a gradient
                self.tensors[name].attach_grad(request, **({"stype": stype} if stype else {}))
            found.append((name, self.tensors[name].grad))
        return found + [(name, one.list_grad()[0]) for name, one in self.parameters.items()]

    def differentiable(self):
        """Names of the tensors that gradients are asked of: floating point, no states, no indices beside others."""
        found = [
            name
            for name, tensor in self.tensors.items()
            if numpy.dtype(tensor.dtype).kind == "f"
            and not AUXILIARY.match(name)
            and self.gradients.get(name, ASKED)[0] != "null"
        ]
        return [name for name in found if name not in self.whole] or found


def as_attribute(value):
    return tuple(as_attribute(item) for item in value) if isinstance(value, list) else value


def as_subscript(text):
    """What stands between the brackets of ``x[...]``: integers, slices, ``...``, ``None``, and commas between."""
    found = tuple(as_one_subscript(part.strip()) for part in text.split(","))
    return found if len(found) > 1 else found[0]


def as_one_subscript(text):
    if text in ("...", "None"):
        return Ellipsis if text == "..." else None
    if ":" in text:
        return slice(*[int(part) if part else None for part in text.split(":")])
    return int(text)


def sparse_tensor(random, array, stype, density, context):
    """``array`` with a share of its elements (csr) or rows (row_sparse) alone, at places drawn from ``random``."""
    rows = array.shape[0]
    count = array.size if stype == "csr" else rows
    stored = min(count, max(1, round(density * count))) if density else 0
    places = numpy.sort(random.choice(count, stored, replace=False)) if stored else numpy.zeros(0, "int64")
    options = {"shape": array.shape, "dtype": array.dtype, "ctx": context}
    if stype == "row_sparse":
        return mx.nd.sparse.row_sparse_array((array[places], places), **options)
    starts = numpy.searchsorted(places, numpy.arange(rows + 1) * array.shape[1])
    return mx.nd.sparse.csr_matrix((array.ravel()[places], places % max(1, array.shape[1]), starts), **options)


def encoded_picture(pixels):
    """The bytes of a PNG file of ``pixels`` (height, width, 3); not compressed, so that every Python makes the same."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = pixels.shape[:2]
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", stored(lines)), chunk(b"IEND", b"")]
    return numpy.frombuffer(b"\x89PNG\r\n\x1a\n" + b"".join(parts), dtype="uint8")


def stored(content):
    """A zlib stream of ``content`` in stored blocks (RFC 1950, RFC 1951 3.2.4)."""
    body = b""
    for start in range(0, len(content), 0xFFFF):
        block = content[start : start + 0xFFFF]
        last = start + len(block) == len(content)
        body += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block
    return b"\x78\x01" + body + struct.pack(">I", zlib.adler32(content))


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
    elif init == "png":
        array = encoded_picture(random.randint(0, 256, size=shape).astype("uint8"))
    elif init in ("zeros", "ones"):
        return getattr(numpy, init)(shape, dtype)
    else:
        raise ValueError(f"init {init!r} is not known")
    return numpy.asarray(array).astype(dtype)
