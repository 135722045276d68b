"""Arrays from a case's plain data: values from the seed, the case and the argument's name alone, or as written."""

import zlib

import numpy

from opduel_common.values import make_array

USUAL_DTYPE = "float32"  # of a case that says none; its name doesn't say it
UNKNOWN = ("index", "context", "function", "file", "size", "call", "tuple")  # an argument's forms of other frameworks


def is_shape(plain):
    return isinstance(plain, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in plain)


class Arrays:
    """Makes a case's arrays, and keeps them by name."""

    def __init__(self, case, seed):
        self.case = case
        self.seed = seed
        self.made = {}

    def value(self, name, plain, dtype):
        """An array of ``dtype`` unless the plain data say another: a shape, a tensor's long form, or its elements."""
        if isinstance(plain, dict) and "shape" in plain:
            return self.random(name, plain, plain.get("dtype") or dtype)
        if is_shape(plain):
            return self.random(name, {"shape": plain}, dtype)
        if isinstance(plain, list):
            return [self.value("{}{}".format(name, i), one, dtype) for i, one in enumerate(plain)]
        if isinstance(plain, dict) and "value" not in plain:
            form = next((one for one in UNKNOWN if one in plain), "form")
            raise ValueError('{}: {{"{}": ...}} is not an input of ONNX Runtime'.format(name, form))
        return self.keep(name, numpy.array(plain["value"] if isinstance(plain, dict) else plain, dtype))

    def random(self, name, plain, dtype):
        """An array of a shape. Raises ValueError for what there isn't."""
        if plain.get("stype") not in (None, "default", "numpy"):
            raise ValueError("{}: there are no {} tensors".format(name, plain["stype"]))
        if dtype == "object":
            raise ValueError('{}: strings must be said: {{"value": ["a", "b"]}}'.format(name))
        key = "{}|{}|{}".format(self.seed, self.case["id"], name)
        generator = numpy.random.RandomState(zlib.crc32(key.encode("utf-8")) & 0xFFFFFFFF)
        try:
            made = make_array(
                generator, tuple(plain["shape"]), dtype, plain.get("init"), plain.get("low"), plain.get("high")
            )
        except ValueError as error:
            raise ValueError("{}: {}".format(name, error)) from None
        return self.keep(name, made)

    def keep(self, name, array):
        self.made[name] = array
        return array

    def check_dtype(self):
        """Raise ValueError if no array is of the dtype that the case's name says."""
        dtype, found = self.case["dtype"], sorted({one.dtype.name for one in self.made.values()})
        if dtype != USUAL_DTYPE and dtype not in found:
            what = "its arrays are {}".format(" and ".join(found)) if found else "it has no arrays"
            raise ValueError("nothing in this case would be {}, {}: leave the dtype out".format(dtype, what))
