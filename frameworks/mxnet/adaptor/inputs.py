"""A case's plain data as the operator's arguments: tensors whose values come from the seed."""

import functools
import re
import zlib

import mxnet as mx
import numpy

from opduel_common.values import file_holding, make_array

from . import large
from .functions import function
from .operators import argument_types, takes_dtype

# The namespaces that need numpy semantics switched on.
NUMPY_ROOTS = ("np", "npx")
DENSITY = 0.1  # of sparse tensors that say none
# States that an operator updates in place: no gradient flows to them.
AUXILIARY = re.compile(r"^moving_(mean|var|inv_var)$")
USUAL_DTYPE = "float32"  # of a case that says none; its name doesn't say it
# Operators that make numbers, so that their ``dtype`` says what they compute in even where tensors say how.
MAKERS = re.compile(r"\.(random[._]|sample_|one_hot$)(?!multinomial)")


def is_shape(value):
    return isinstance(value, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in value)


def plain_sizes(value):
    """The sizes that an attribute says, in either way of writing it; None where it says something else."""
    value = value.get("value") if isinstance(value, dict) else value
    return value if is_shape(value) and min(value, default=0) >= 0 else None


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
        self.arrays = {}  # NumPy's, by name
        self.parameters = {}  # of a Gluon block: name -> those that are trained
        self.gradients = {}  # name -> (grad_req, grad_stype) of those that say one
        self.whole = set()  # names of those that hold whole numbers: indices, labels, lengths

    def arguments(self):
        """``(args, kwargs)`` for the operator's Python function."""
        self.check_memory()
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

    def with_dtype(self, function, kwargs):
        """``kwargs`` with the case's dtype, where that is not the usual one and an argument of ``function`` says it.

        Creation and random operators take it there: they have no tensors, or none that decides.  Raises ValueError if
        nothing in the case is of the dtype that its name says.
        """
        dtype = self.case["dtype"]
        if dtype == USUAL_DTYPE:
            return kwargs
        decides = MAKERS.search(self.case["operator"]) or dtype not in self.dtypes()
        if decides and "dtype" not in kwargs and takes_dtype(self.case["operator"], function):
            return dict(kwargs, dtype=dtype)
        if kwargs.get("dtype") != dtype:
            self.check_dtype()
        return kwargs

    def check_dtype(self):
        """Raise ValueError if no tensor or array is of the dtype that the case's name says."""
        arrays = {one.dtype.name for one in self.arrays.values()}
        dtype, found = self.case["dtype"], sorted(self.dtypes() | arrays)
        if dtype not in found and dtype != USUAL_DTYPE:
            what = "its tensors are {}".format(" and ".join(found)) if found else "it takes no other dtype than its own"
            raise ValueError(
                f"nothing in this case would be {dtype}, {what}: leave the dtype out, or give other inputs"
            )

    def dtypes(self):
        """Names of the tensors' dtypes, and of a block's parameters'."""
        every = list(self.tensors.values()) + list(self.parameters.values())
        return {numpy.dtype(one.dtype).name for one in every}

    def check_memory(self):
        """Raise what large.py raises where the build or the machine can't hold the case's tensors."""
        large.check(self.tensors_to_make(), self.case["direction"])

    def tensors_to_make(self):
        """``[(name, shape, dtype, whether all zeros or ones)]`` of every tensor, before any is made."""
        found = []

        def note(name, value, takes_tensor):
            if isinstance(value, dict) and "shape" in value:
                plain = value.get("init") in ("zeros", "ones")
                found.append((name, value["shape"], value.get("dtype") or self.case["dtype"], plain))
            elif isinstance(value, dict):
                inner = value.get("args") or value.get("tuple") or value.get("file") or []
                for item in inner if isinstance(inner, list) else [inner]:
                    note(name, item, True)
            elif takes_tensor and is_shape(value):
                found.append((name, value, self.case["dtype"], False))
            elif takes_tensor and isinstance(value, list):
                for item in value:
                    note(name, item, True)

        for name, value in self.case["inputs"].items():
            note(name, value, name == "args" or self.takes_tensor(name))
        shape = plain_sizes(self.case["inputs"].get("shape", self.case["inputs"].get("size")))
        if not found and shape:  # of an operator that makes a tensor out of nothing
            found.append(("shape", shape, self.case["dtype"], True))
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
        if isinstance(value, dict) and "function" in value:
            return functools.partial(function(value["function"]), *self.several(name, value.get("args", [])))
        if isinstance(value, dict) and "tuple" in value:
            return tuple(self.several(name, value["tuple"]))
        if isinstance(value, dict) and "file" in value:
            return self.file(name, value["file"])
        if isinstance(value, dict):
            return self.tensor(name, **value)
        if takes_tensor and is_shape(value):
            return self.tensor(name, value)
        if takes_tensor and isinstance(value, list):
            return self.several(name, value)
        return as_attribute(value)

    def several(self, name, values):
        return [self.value(f"{name}{i}", item, True) for i, item in enumerate(values)]

    def file(self, name, content):
        """The path of a temporary file: with nothing in it, saved tensors, or an encoded picture."""
        if content is None:
            return file_holding(None)
        made = self.value(name, content, True)
        picture = isinstance(content, dict) and content.get("init") == "png"
        save = mx.npx.save if self.numpy else mx.nd.save
        return file_holding(made.asnumpy().tobytes() if picture else lambda path: save(path, made))

    def tensor(self, name, shape, dtype=None, init=None, low=None, high=None, **stored):
        """A tensor whose values depend on the seed, the case and the argument's name alone.

        ``stored``: ``stype``, ``density``, ``grad_stype`` and ``grad_req``, as a spec says them.
        """
        dtype = "uint8" if init == "png" else dtype or self.case["dtype"]
        random = self.random(name)
        try:
            array = make_array(random, tuple(shape), dtype, init, low, high)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        stype = stored.get("stype") or "default"
        if stype == "numpy":
            self.arrays[name] = array
            return array
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


def make_context(text):
    kind, _, index = text.rstrip(")").partition("(")
    return mx.Context(kind, int(index or 0))
