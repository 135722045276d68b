"""Arrays from a case's plain data: values from the seed, the case and the argument's name alone, or as written."""

import numpy

from opduel_common.inputs import Inputs, is_shape

UNKNOWN = ("index", "context", "function", "file", "size", "call")  # an argument's forms of other frameworks


class Arrays(Inputs):
    """Makes a case's arrays of the dtypes that a schema or a model asks for, and keeps them by name."""

    whose = "ONNX Runtime"

    def __init__(self, case, seed):
        Inputs.__init__(self, case, seed)
        self.drawn = set()  # names of those whose values are drawn, not said

    def array(self, name, plain):
        self.drawn.add(name)
        return Inputs.array(self, name, plain)

    def typed(self, name, plain, dtype):
        """An array of ``dtype`` unless the plain data say another: of a shape, or of the elements said; or a list, of
        the parts of a sequence.

        Raises ValueError for what is no input.
        """
        if isinstance(plain, dict) and "shape" in plain:
            return self.array(name, dict(plain, dtype=plain.get("dtype") or dtype))
        if is_shape(plain):
            return self.array(name, {"shape": plain, "dtype": dtype})
        parts = plain["tuple"] if isinstance(plain, dict) and "tuple" in plain else plain
        if isinstance(parts, list):
            return [self.typed("{}{}".format(name, i), one, dtype) for i, one in enumerate(parts)]
        if isinstance(plain, dict) and "value" not in plain:
            form = next((one for one in UNKNOWN if one in plain), "form")
            raise ValueError('{}: {{"{}": ...}} is not an input of ONNX Runtime'.format(name, form))
        self.arrays[name] = numpy.array(plain["value"] if isinstance(plain, dict) else plain, dtype)
        return self.arrays[name]

    def numbers(self, name, plain):
        """A NumPy array of the shape. Raises ValueError for strings, which have no shape alone."""
        if plain["dtype"] == "object":
            raise ValueError('{}: strings must be written out: {{"value": ["a", "b"]}}'.format(name))
        return Inputs.numbers(self, name, plain)


def by_name(names, plain):
    """What a case gives of a model's inputs, by name: those of ``args`` are in the order of ``names``.

    Raises ValueError for one that the model doesn't have, and for one given twice.
    """
    given = dict(plain)
    args = given.pop("args", [])
    if len(args) > len(names):
        raise ValueError("args has {} inputs, the model {}: {}".format(len(args), len(names), ", ".join(names)))
    for name in given:
        if name not in names:
            raise ValueError("the model has no input {}: its inputs are {}".format(name, ", ".join(names)))
    for name, one in zip(names, args):
        if name in given:
            raise ValueError("{} is given twice, in args and by its name: leave one out".format(name))
        given[name] = one
    return given
