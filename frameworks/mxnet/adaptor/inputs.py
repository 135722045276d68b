"""Turn a case's JSON into the operator's arguments: tensors whose values come from the seed, and attributes."""

import functools
import re

import mxnet as mx
import numpy

from opduel_common.inputs import DENSITY, USUAL_DTYPE, USUAL_GRADIENT, TensorInputs, is_shape
from opduel_common.values import file_holding, make_array

from . import large
from .functions import function
from .operators import argument_types, takes_dtype

# The namespaces that need numpy semantics switched on.
NUMPY_ROOTS = ("np", "npx")
# States that an operator updates in place: no gradient flows to them.
AUXILIARY = re.compile(r"^moving_(mean|var|inv_var)$")
# Operators that make numbers, whose ``dtype`` counts even if their tensors have another one.
MAKERS = re.compile(r"\.(random[._]|sample_|one_hot$)(?!multinomial)")


def plain_sizes(value):
    """Return the sizes in an attribute, in either way of writing them, or None if it holds something else."""
    value = value.get("value") if isinstance(value, dict) else value
    return value if is_shape(value) and min(value, default=0) >= 0 else None


class Inputs(TensorInputs):
    """The arguments of one case; ``arrays`` are NumPy's."""

    function_kind = "MXNet operators"

    def __init__(self, case, seed):
        super().__init__(case, seed)
        self.numpy = case["operator"].split(".")[0] in NUMPY_ROOTS
        self.context = make_context(case["context"])
        self.types = argument_types(case["operator"])

    def arguments(self):
        """Return ``(args, kwargs)`` for the operator's Python function; a method's ``self`` comes first in ``args``."""
        self.check_memory()
        args, kwargs = super().arguments()
        if "self" in kwargs:
            args.insert(0, kwargs.pop("self"))
        return args, kwargs

    def with_dtype(self, function, kwargs):
        """Return ``kwargs`` with the case's dtype, if it isn't the usual one and ``function`` takes it.

        Creation and random operators need it: they have no tensors, or none that decides. Raise ValueError if nothing
        in the case has the dtype in its name.
        """
        dtype = self.case["dtype"]
        if dtype == USUAL_DTYPE:
            return kwargs
        decides = MAKERS.search(self.case["operator"]) or dtype not in self.tensor_dtypes()
        if decides and "dtype" not in kwargs and takes_dtype(self.case["operator"], function):
            return dict(kwargs, dtype=dtype)
        if kwargs.get("dtype") != dtype:
            self.check_dtype()
        return kwargs

    def dtypes(self):
        """Return the names of the dtypes of tensors, arrays, and a block's parameters."""
        return self.tensor_dtypes() | super().dtypes()

    def tensor_dtypes(self):
        tensors = list(self.tensors.values()) + list(self.parameters.values())
        return {numpy.dtype(tensor.dtype).name for tensor in tensors}

    def check_memory(self):
        """Raise UnsupportedSize or TooLarge (large.py) if the build or the machine can't hold the case's tensors."""
        large.check(self.tensors_to_make(), self.case["direction"])

    def tensors_to_make(self):
        """Return ``[(name, shape, dtype, whether all zeros or ones)]`` of every tensor, before any is made."""
        tensors = []

        def add(name, value, takes_tensor):
            if isinstance(value, dict) and "shape" in value:
                is_constant = value.get("init") in ("zeros", "ones")
                tensors.append((name, value["shape"], value.get("dtype") or self.case["dtype"], is_constant))
            elif isinstance(value, dict):
                inner = value.get("args") or value.get("tuple") or value.get("file") or []
                for item in inner if isinstance(inner, list) else [inner]:
                    add(name, item, True)
            elif takes_tensor and is_shape(value):
                tensors.append((name, value, self.case["dtype"], False))
            elif takes_tensor and isinstance(value, list):
                for item in value:
                    add(name, item, True)

        for name, value in self.case["inputs"].items():
            add(name, value, name == "args" or self.takes_tensor(name))
        shape = plain_sizes(self.case["inputs"].get("shape", self.case["inputs"].get("size")))
        if not tensors and shape:  # of an operator that makes a tensor out of nothing
            tensors.append(("shape", shape, self.case["dtype"], True))
        return tensors

    def takes_tensor(self, name):
        if name in self.types:
            return self.types[name].startswith(("NDArray", "Symbol"))
        # Python wrappers (nd.add, nd.random.normal) have no registered types.
        return name not in ("shape", "axis", "axes", "size", "scale", "loc", "low", "high")

    def keyword(self, name, plain):
        """Return a keyword argument; a list is an attribute unless the operator takes a tensor of this name."""
        if isinstance(plain, list) and not self.takes_tensor(name):
            return as_attribute(plain)
        return self.value(name, plain)

    def seed_generators(self):
        """Do nothing: no call makes an argument, and in ``performance`` the generators are the user's."""

    def value(self, name, plain):
        if isinstance(plain, dict) and "value" in plain:
            return as_attribute(plain["value"])
        if isinstance(plain, dict) and "index" in plain:
            return as_subscript(plain["index"])
        if isinstance(plain, dict) and "context" in plain:
            return make_context(plain["context"])
        if isinstance(plain, dict) and "file" in plain:
            return self.file(name, plain["file"])
        return super().value(name, plain)

    def function(self, name, plain):
        """Return one of the functions in functions.py, with its first arguments bound if the case has any."""
        return functools.partial(function(plain["function"]), *self.values(name, plain.get("args", [])))

    def file(self, name, content):
        """Return the path of a temporary file: empty, or with saved tensors or an encoded picture."""
        if content is None:
            return file_holding(None)
        value = self.value(name, content)
        is_picture = isinstance(content, dict) and content.get("init") == "png"
        save = mx.npx.save if self.numpy else mx.nd.save
        return file_holding(value.asnumpy().tobytes() if is_picture else lambda path: save(path, value))

    def dense_tensor(self, array, dtype):
        return (mx.np if self.numpy else mx.nd).array(array, dtype=dtype, ctx=self.context)

    def sparse_tensor(self, name, plain, stype, dtype):
        """Return a tensor with a share of its elements (csr) or rows (row_sparse), at random places."""
        if self.numpy:
            raise ValueError(f"{name}: np has no {stype} tensors")
        random, values = self.random(name), (plain.get("init"), plain.get("low"), plain.get("high"))
        try:
            array = make_array(random, tuple(plain["shape"]), dtype, *values)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        return sparse_tensor(random, array, stype, plain.get("density", DENSITY), self.context)

    def attach_gradients(self):
        """Return ``(name, gradient)`` of the differentiable tensors, and of a block's parameters."""
        gradients = []
        for name in self.differentiable_names():
            request, stype = self.gradients.get(name, USUAL_GRADIENT)
            if name in self.gradients or self.tensors[name].grad is None:  # a user's array may have a gradient
                self.tensors[name].attach_grad(request, **({"stype": stype} if stype else {}))
            gradients.append((name, self.tensors[name].grad))
        return gradients + [(name, parameter.list_grad()[0]) for name, parameter in self.parameters.items()]

    def is_differentiable(self, tensor):
        return numpy.dtype(tensor.dtype).kind == "f"

    def can_have_gradient(self, name, tensor):
        return super().can_have_gradient(name, tensor) and not AUXILIARY.match(name)


def as_attribute(value):
    """Return an attribute with tuples in place of lists."""
    return tuple(as_attribute(item) for item in value) if isinstance(value, list) else value


def as_subscript(text):
    """Parse what stands between the brackets of ``x[...]``: integers, slices, ``...`` and ``None``, with commas."""

    def parse(part):
        if part in ("...", "None"):
            return Ellipsis if part == "..." else None
        if ":" in part:
            return slice(*[int(bound) if bound else None for bound in part.split(":")])
        return int(part)

    parts = tuple(parse(part.strip()) for part in text.split(","))
    return parts if len(parts) > 1 else parts[0]


def sparse_tensor(random, array, stype, density, context):
    """Return ``array`` with only a share of its elements (csr) or rows (row_sparse), at places from ``random``."""
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
