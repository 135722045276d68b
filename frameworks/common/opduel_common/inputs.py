"""A case's plain data as arguments: arrays whose values come from the seed, what calls make, and plain values.

For frameworks whose operators are functions of any package. One that has tensors of its own overrides ``array``.
"""

import functools
import random
import zlib

from opduel_common.names import MissingOperator, UnusableCall, called, resolve

try:
    import numpy
    import numpy.random  # which NumPy 2 leaves to the first use, and that would be every case's own process

    from opduel_common.kept import kept_array
    from opduel_common.values import make_array
except ImportError:  # a build without NumPy: only calls and plain values can be arguments
    numpy = None

USUAL_DTYPE = "float32"  # of a case that says none; its name doesn't say it
MADE = ("zeros", "ones", "arange")  # arrays that are made as quickly as they are copied
UNKNOWN = ("index", "context", "file", "size")  # of an argument's forms, those of other frameworks


def is_shape(value):
    return isinstance(value, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in value)


class Inputs:
    """Turns a case's plain data into arguments."""

    whose = "Python functions"  # in messages

    def __init__(self, case, seed):
        self.case = case
        self.seed = seed
        self.arrays = {}  # those made of a shape, by name

    def arguments(self):
        """``(args, kwargs)``. Raises ValueError for an argument of a form that there isn't."""
        self.seed_generators()
        inputs = dict(self.case["inputs"])
        return self.values("args", inputs.pop("args", [])), self.named("", inputs)

    def seed_generators(self):
        """Seed what calls draw from, by the seed and the case alone."""
        seed_generators(zlib.crc32("{}|{}".format(self.seed, self.case["id"]).encode("utf-8")))

    def check_dtype(self):
        """Raise ValueError if nothing is of the dtype that the case's name says."""
        dtypes = sorted(self.dtypes())
        dtype = self.case["dtype"]
        if dtype != USUAL_DTYPE and dtype not in dtypes:
            what = "its arrays are {}".format(" and ".join(dtypes)) if dtypes else "it has no arrays made of shapes"
            raise ValueError(f"nothing in this case would be {dtype}, {what}: leave the dtype out")

    def dtypes(self):
        """Names of the arrays' dtypes."""
        return {one.dtype.name for one in self.arrays.values()}

    def values(self, name, plain):
        return [self.value(f"{name}{i}", item) for i, item in enumerate(plain)]

    def named(self, prefix, plain):
        same = {name: one["same_as"] for name, one in plain.items() if isinstance(one, dict) and "same_as" in one}
        found = {name: self.value(prefix + name, one) for name, one in plain.items() if name not in same}
        for name, other in same.items():
            if other not in found:
                raise ValueError(f"{prefix}{name}: is the same as {other}, which is no argument here")
            found[name] = found[other]
        return found

    def value(self, name, plain):
        """One argument: ``name`` is where it is in the case."""
        if isinstance(plain, list):
            return self.array(name, {"shape": plain}) if is_shape(plain) else self.values(name, plain)
        if not isinstance(plain, dict):
            return plain
        if "value" in plain:
            return plain["value"]
        if "call" in plain:
            return self.made(name, plain)
        if "function" in plain:
            return self.function(name, plain)
        if "shape" in plain:
            return self.array(name, plain)
        if "tuple" in plain:
            return tuple(self.values(name, plain["tuple"]))
        form = next((one for one in UNKNOWN if one in plain), "form")
        raise ValueError(f'{name}: {{"{form}": ...}} is not an argument of {self.whose}: use a call')

    def made(self, name, plain):
        """What a call returns. Raises UnusableCall; whatever the function raises."""
        args = self.values(name + ".args", plain.get("args") or [])
        kwargs = self.named(name + ".", plain.get("kwargs") or {})
        try:
            function, args = called(plain["call"], args, kwargs)
        except MissingOperator as error:
            raise UnusableCall(f"{name}: {error}") from None
        return function(*args, **kwargs)

    def function(self, name, plain):
        """A function as an argument, with its first arguments if those are given. Raises UnusableCall."""
        try:
            found = resolve(plain["function"])[0]
        except MissingOperator as error:
            raise UnusableCall(f"{name}: {error}") from None
        args = self.values(name + ".args", plain.get("args") or [])
        return functools.partial(found, *args) if args else found

    def array(self, name, plain):
        """An array of the shape, as the function gets it."""
        self.arrays[name] = self.numbers(name, plain)
        return self.arrays[name]

    def numbers(self, name, plain):
        """A NumPy array of the shape, its values from the seed, the case and the name alone."""
        if numpy is None:
            raise ValueError(f"{name}: an array needs NumPy, which this build doesn't have")
        if plain.get("stype") not in (None, "default", "numpy"):
            raise ValueError("{}: there are no {} arrays: make one by a call".format(name, plain["stype"]))
        shape, dtype = tuple(plain["shape"]), plain.get("dtype") or self.case["dtype"]
        values = plain.get("init"), plain.get("low"), plain.get("high")

        def make():
            return make_array(self.random(name), shape, dtype, *values)

        try:
            if plain.get("init") in MADE:
                return make()
            return kept_array(repr((self.random_key(name), shape, dtype, values)), shape, dtype, make)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def random(self, name):
        """Random numbers that depend on the seed, the case and the name alone."""
        return numpy.random.RandomState(zlib.crc32(self.random_key(name).encode("utf-8")) & 0xFFFFFFFF)

    def random_key(self, name):
        return "{}|{}|{}".format(self.seed, self.case["id"], name)


def seed_generators(seed):
    """Every global generator of random numbers that a function may draw from."""
    random.seed(seed & 0x7FFFFFFF)
    if numpy is not None:
        numpy.random.seed(seed & 0x7FFFFFFF)
