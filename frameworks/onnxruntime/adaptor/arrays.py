"""Make arrays of a case's JSON: drawn from the seed, the case and the argument's name alone, or written out."""

import numpy

from opduel_common.inputs import Inputs, is_shape

OTHER_FORMS = ("index", "context", "function", "file", "size", "call")  # forms of arguments in other frameworks


class Arrays(Inputs):
    """A case's arrays by name, with the dtypes that a schema or a model needs."""

    function_kind = "ONNX Runtime"

    def __init__(self, case, seed):
        Inputs.__init__(self, case, seed)
        self.drawn = set()  # names of the arrays with drawn values

    def array(self, name, plain):
        self.drawn.add(name)
        return Inputs.array(self, name, plain)

    def make_array(self, name, plain, dtype):
        """Return an array of a shape or of given elements, or a list of arrays for a sequence.

        They have ``dtype`` unless ``plain`` names another. Raise ValueError if it isn't an input.
        """
        if isinstance(plain, dict) and "shape" in plain:
            return self.array(name, dict(plain, dtype=plain.get("dtype") or dtype))
        if is_shape(plain):
            return self.array(name, {"shape": plain, "dtype": dtype})
        parts = plain["tuple"] if isinstance(plain, dict) and "tuple" in plain else plain
        if isinstance(parts, list):
            return [self.make_array(f"{name}{i}", part, dtype) for i, part in enumerate(parts)]
        if isinstance(plain, dict) and "value" not in plain:
            form = next((key for key in OTHER_FORMS if key in plain), "form")
            raise ValueError(f'{name}: {{"{form}": ...}} is not an input of ONNX Runtime')
        self.arrays[name] = numpy.array(plain["value"] if isinstance(plain, dict) else plain, dtype)
        return self.arrays[name]

    def numbers(self, name, plain):
        """Return a NumPy array of the shape. Raise ValueError for strings, which can't be drawn."""
        if plain["dtype"] == "object":
            raise ValueError(f'{name}: strings must be written out: {{"value": ["a", "b"]}}')
        return Inputs.numbers(self, name, plain)


def inputs_by_name(names, plain):
    """Return a case's inputs of a model by name; those in ``args`` are in the order of ``names``. Raise ValueError for
    an input that the model doesn't have, and for one given twice."""
    inputs = dict(plain)
    args = inputs.pop("args", [])
    if len(args) > len(names):
        raise ValueError("args has {} inputs, the model {}: {}".format(len(args), len(names), ", ".join(names)))
    for name in inputs:
        if name not in names:
            raise ValueError("the model has no input {}: its inputs are {}".format(name, ", ".join(names)))
    for name, argument in zip(names, args):
        if name in inputs:
            raise ValueError(f"{name} is given twice, in args and by its name: leave one out")
        inputs[name] = argument
    return inputs
