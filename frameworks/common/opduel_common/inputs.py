"""Turn a case's JSON into arguments: arrays or tensors with values from the seed, results of calls, plain values."""

import functools
import zlib

from opduel_common.names import MissingOperator, UnusableCall, resolve, resolve_call
from opduel_common.scripts import seed_generators

try:
    import numpy
    import numpy.random  # NumPy 2 imports it at its first use, which would be in every case's own process

    from opduel_common.values import make_array, make_entries
except ImportError:  # a build without NumPy: only calls and plain values can be arguments
    numpy = None

USUAL_DTYPE = "float32"  # the dtype of a case that names none
DENSITY = 0.1  # of sparse arrays without a density
USUAL_GRADIENT = ("write", None)  # grad_req and grad_stype of tensors that name none
OTHER_FORMS = ("index", "context", "file", "size")  # forms of arguments that only some frameworks have


def is_shape(value):
    return isinstance(value, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in value)


class Inputs:
    """The arguments of one case."""

    function_kind = "Python functions"  # in messages

    def __init__(self, case, seed):
        self.case = case
        self.seed = seed
        self.arrays = {}  # arrays made from a shape, by name; of a sparse one the stored elements
        self.requested_dtypes = set()  # of these arrays, as the case names them

    def arguments(self):
        """Return ``(args, kwargs)``. Raise ValueError for an argument of an unknown form."""
        self.seed_generators()
        inputs = dict(self.case["inputs"])
        return self.values("args", inputs.pop("args", [])), self.named_values("", inputs)

    def seed_generators(self):
        """Seed the global generators, from the seed and the case alone."""
        seed_generators(zlib.crc32("{}|{}".format(self.seed, self.case["id"]).encode("utf-8")))

    def check_dtype(self):
        """Raise ValueError if no array has the dtype in the case's name."""
        dtypes = sorted(self.dtypes())
        dtype = self.case["dtype"]
        if dtype not in ("", USUAL_DTYPE) and dtype not in dtypes:
            reason = "its arrays are {}".format(" and ".join(dtypes)) if dtypes else "it has no arrays made of shapes"
            raise ValueError(f"nothing in this case would be {dtype}, {reason}: leave the dtype out")

    def dtypes(self):
        """Return the names of the arrays' dtypes."""
        return {array.dtype.name for array in self.arrays.values()} | self.requested_dtypes

    def values(self, name, plain):
        return [self.value(f"{name}{i}", item) for i, item in enumerate(plain)]

    def named_values(self, prefix, plain):
        same = {
            name: argument["same_as"]
            for name, argument in plain.items()
            if isinstance(argument, dict) and "same_as" in argument
        }
        values = {name: self.keyword(prefix + name, argument) for name, argument in plain.items() if name not in same}
        for name, other in same.items():
            if other not in values:
                raise ValueError(f"{prefix}{name}: is the same as {other}, which is no argument here")
            values[name] = values[other]
        return values

    def keyword(self, name, plain):
        """Return a keyword argument. A framework may override this, for which ``name`` tells what it means."""
        return self.value(name, plain)

    def value(self, name, plain):
        """Return one argument; ``name`` is its place in the case."""
        if isinstance(plain, list):
            return self.array(name, {"shape": plain}) if is_shape(plain) else self.values(name, plain)
        if not isinstance(plain, dict):
            return plain
        if "value" in plain:
            return plain["value"]
        if "call" in plain:
            return self.call_result(name, plain)
        if "function" in plain:
            return self.function(name, plain)
        if "shape" in plain:
            return self.array(name, plain)
        if "tuple" in plain:
            return tuple(self.values(name, plain["tuple"]))
        form = next((key for key in OTHER_FORMS if key in plain), "form")
        raise ValueError(f'{name}: {{"{form}": ...}} is not an argument of {self.function_kind}: use a call')

    def call_result(self, name, plain):
        """Return what a call returns. Raise UnusableCall, and whatever the function raises."""
        args = self.values(name + ".args", plain.get("args") or [])
        kwargs = self.named_values(name + ".", plain.get("kwargs") or {})
        try:
            function, args = resolve_call(plain["call"], args, kwargs)
        except MissingOperator as error:
            raise UnusableCall(f"{name}: {error}") from None
        return function(*args, **kwargs)

    def function(self, name, plain):
        """Return a function as an argument, with its first arguments bound if the case has any. Raise UnusableCall."""
        try:
            function = resolve(plain["function"])[0]
        except MissingOperator as error:
            raise UnusableCall(f"{name}: {error}") from None
        args = self.values(name + ".args", plain.get("args") or [])
        return functools.partial(function, *args) if args else function

    def array(self, name, plain):
        """Return an array of the shape as the function takes it, and remember it in ``arrays``."""
        self.requested_dtypes.add(plain.get("dtype") or self.case["dtype"])
        if plain.get("sparse"):
            return self.sparse_array(name, plain)
        self.arrays[name] = self.numbers(name, plain)
        return self.arrays[name]

    def sparse_array(self, name, plain):
        """Return an array or matrix of SciPy's class ``sparse``. Raise UnusableCall if the build has none."""
        try:
            import scipy.sparse
        except ImportError:
            raise UnusableCall(f"{name}: a sparse array needs SciPy, which this build doesn't have") from None
        if not hasattr(scipy.sparse, plain["sparse"]):
            raise UnusableCall("{}: this build's SciPy has no {}".format(name, plain["sparse"]))
        shape, dtype = tuple(plain["shape"]), plain.get("dtype") or self.case["dtype"]
        values = plain.get("density", DENSITY), plain.get("init"), plain.get("low"), plain.get("high")
        rows, columns, self.arrays[name] = make_entries(self.random(name), shape, dtype, *values)
        coordinates = scipy.sparse.coo_matrix((self.arrays[name].copy(), (rows, columns)), shape)
        return getattr(scipy.sparse, plain["sparse"])(coordinates)

    def numbers(self, name, plain):
        """Return a NumPy array of the shape, whose values depend on the seed, the case and the name alone."""
        if numpy is None:
            raise ValueError(f"{name}: an array needs NumPy, which this build doesn't have")
        if plain.get("stype") not in (None, "default", "numpy"):
            raise ValueError("{}: there are no {} arrays: make one by a call".format(name, plain["stype"]))
        shape, dtype = tuple(plain["shape"]), plain.get("dtype") or self.case["dtype"]
        try:
            return make_array(self.random(name), shape, dtype, plain.get("init"), plain.get("low"), plain.get("high"))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def random(self, name):
        """Return a generator that depends on the seed, the case and the name alone."""
        return numpy.random.RandomState(zlib.crc32(self.random_key(name).encode("utf-8")) & 0xFFFFFFFF)

    def random_key(self, name):
        return "{}|{}|{}".format(self.seed, self.case["id"], name)


class TensorInputs(Inputs):
    """The arguments of a framework that has tensors, gradients, and modules with parameters.

    It defines ``dense_tensor(array, dtype)`` and ``is_differentiable(tensor)``.
    """

    def __init__(self, case, seed):
        super().__init__(case, seed)
        self.tensors = {}  # tensors made from a shape, by name
        self.parameters = {}  # a module's trained parameters, by name
        self.integer_names = set()  # names of tensors that hold integers, such as indices and labels
        self.gradients = {}  # name -> (grad_req, grad_stype) of tensors made from a shape

    def array(self, name, plain):
        """Return a tensor of the shape, whose values depend on the seed, the case and the name alone."""
        stype = plain.get("stype") or "default"
        dtype = "uint8" if plain.get("init") == "png" else plain.get("dtype") or self.case["dtype"]
        if stype not in ("default", "numpy"):
            tensor = self.sparse_tensor(name, plain, stype, dtype)
        else:
            drawn_dtype = "float32" if dtype == "bfloat16" else dtype  # NumPy has no bfloat16
            array = self.numbers(name, dict(plain, stype="default", dtype=drawn_dtype))
            if stype == "numpy":
                self.arrays[name] = array
                return array
            tensor = self.dense_tensor(array, dtype)
        self.tensors[name] = tensor
        request = plain.get("grad_req") or ("null" if stype == "csr" else "write")
        self.gradients[name] = (request, plain.get("grad_stype"))
        if plain.get("init") == "randint":
            self.integer_names.add(name)
        return tensor

    def sparse_tensor(self, name, plain, stype, dtype):
        raise ValueError(f"{name}: there are no {stype} tensors: make one by a call")

    def differentiable_names(self):
        """Return the names of the tensors that get gradients, without those that hold integers if there are others."""
        names = [name for name, tensor in self.tensors.items() if self.can_have_gradient(name, tensor)]
        return [name for name in names if name not in self.integer_names] or names

    def can_have_gradient(self, name, tensor):
        return self.is_differentiable(tensor) and self.gradients.get(name, USUAL_GRADIENT)[0] != "null"
