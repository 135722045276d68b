"""A case's plain data as arguments: tensors whose values come from the seed, modules, calls and plain values."""

import numpy
import torch

from opduel_common.inputs import Inputs as PlainInputs

from .devices import device_of
from .results import to_tensor

OBJECTS = (torch.dtype, torch.layout, torch.memory_format)  # what a string "torch.float16" may stand for
ROOT = "torch."


class Inputs(PlainInputs):
    """Turns a case's plain data into arguments."""

    function_kind = "PyTorch functions"

    def __init__(self, case, seed, device):
        super().__init__(case, seed)
        self.device = device
        self.tensors = {}  # those made of a shape, by name
        self.parameters = {}  # of a module: name -> those that are trained
        self.asked = {}  # name -> whether a gradient is asked for, of those that say so
        self.whole = set()  # names of those that hold whole numbers

    def seed_generators(self):
        super().seed_generators()
        torch.manual_seed(self.seed)

    def value(self, name, plain):
        if isinstance(plain, dict) and "context" in plain:
            return device_of(plain["context"])
        if isinstance(plain, dict) and isinstance(plain.get("value"), (dict, list)):
            return self.attribute(plain["value"])
        found = super().value(name, plain)
        return object_named(found) if isinstance(found, str) else found

    def attribute(self, value):
        """What ``{"value": ...}`` stands for: modules within it are made."""
        from .modules import made_of  # which makes its tensors here

        if isinstance(value, list):
            return [self.attribute(item) for item in value]
        if isinstance(value, dict) and "block" in value:
            return made_of(value, self)
        if isinstance(value, dict):
            return {key: self.attribute(item) for key, item in value.items()}
        return object_named(value) if isinstance(value, str) else value

    def array(self, name, plain):
        """A tensor of the shape, its values from the seed, the case and the name alone."""
        stype = plain.get("stype") or "default"
        dtype = getattr(torch, plain.get("dtype") or self.case["dtype"])
        made = self.numbers(name, dict(plain, stype="default", dtype=numpy_name(dtype)))
        if stype == "numpy":
            return made
        tensor = to_tensor(made, dtype, self.device)
        if stype != "default":
            raise ValueError(f"{name}: there are no {stype} tensors: make one by a call")
        self.tensors[name] = tensor
        if plain.get("grad_req"):
            self.asked[name] = plain["grad_req"] != "null"
        if plain.get("init") == "randint":
            self.whole.add(name)
        return tensor

    def differentiable(self):
        """``(name, tensor)`` of the inputs and parameters that gradients are asked of: floating point, no indices
        beside others.

        Raises ValueError if there is none.
        """
        found = [
            name
            for name, one in self.tensors.items()
            if (one.is_floating_point() or one.is_complex()) and self.asked.get(name, True)
        ]
        found = [name for name in found if name not in self.whole] or found
        wanted = [(name, self.tensors[name].requires_grad_()) for name in found]
        wanted += [(name, one.requires_grad_()) for name, one in self.parameters.items()]
        if not wanted:
            raise ValueError("no input has a gradient: its direction is forward")
        return wanted

    def dtypes(self):
        """Names of the tensors' dtypes, and of a module's parameters'."""
        every = list(self.tensors.values()) + list(self.parameters.values())
        return {str(one.dtype)[len(ROOT) :] for one in every}


def numpy_name(dtype):
    """The NumPy dtype in which a tensor's values are drawn."""
    return "float32" if dtype == torch.bfloat16 else numpy.dtype(str(dtype)[len(ROOT) :]).name


def object_named(text):
    """The dtype, layout or memory format that a string such as "torch.float16" names; any other string as it is."""
    found = getattr(torch, text[len(ROOT) :], None) if text.startswith(ROOT) else None
    return found if isinstance(found, OBJECTS) else text
