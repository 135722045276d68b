"""Turn a case's JSON into arguments: tensors whose values come from the seed, modules, results of calls, values."""

import numpy
import torch

from opduel_common.inputs import TensorInputs

from .devices import device_of
from .results import to_tensor

OBJECTS = (torch.dtype, torch.layout, torch.memory_format)  # a string such as "torch.float16" may name one
ROOT = "torch."


class Inputs(TensorInputs):
    """The arguments of one case, with tensors in place of arrays."""

    function_kind = "PyTorch functions"

    def __init__(self, case, seed, device):
        super().__init__(case, seed)
        self.device = device
        self.wants_gradient = {}  # name -> whether the case asks for its gradient, if it says so

    def seed_generators(self):
        super().seed_generators()
        torch.manual_seed(self.seed)

    def value(self, name, plain):
        if isinstance(plain, dict) and "context" in plain:
            return device_of(plain["context"])
        if isinstance(plain, dict) and isinstance(plain.get("value"), (dict, list)):
            return self.attribute(plain["value"])
        result = super().value(name, plain)
        return object_by_name(result) if isinstance(result, str) else result

    def attribute(self, value):
        """Return a ``{"value": ...}``, with modules in place of their descriptions."""
        from .modules import make_module  # modules.py imports this file

        if isinstance(value, list):
            return [self.attribute(item) for item in value]
        if isinstance(value, dict) and "block" in value:
            return make_module(value, self)
        if isinstance(value, dict):
            return {key: self.attribute(item) for key, item in value.items()}
        return object_by_name(value) if isinstance(value, str) else value

    def array(self, name, plain):
        """Return a tensor of the shape, whose values depend on the seed, the case and the name alone."""
        stype = plain.get("stype") or "default"
        dtype = getattr(torch, plain.get("dtype") or self.case["dtype"])
        array = self.numbers(name, dict(plain, stype="default", dtype=numpy_name(dtype)))
        if stype == "numpy":
            return array
        tensor = to_tensor(array, dtype, self.device)
        if stype != "default":
            raise ValueError(f"{name}: there are no {stype} tensors: make one by a call")
        self.tensors[name] = tensor
        if plain.get("grad_req"):
            self.wants_gradient[name] = plain["grad_req"] != "null"
        if plain.get("init") == "randint":
            self.integer_names.add(name)
        return tensor

    def differentiable_tensors(self):
        """Return ``(name, tensor)`` of the inputs and parameters that get gradients.

        Raise ValueError if there are none.
        """
        tensors = [(name, self.tensors[name].requires_grad_()) for name in self.differentiable_names()]
        tensors += [(name, parameter.requires_grad_()) for name, parameter in self.parameters.items()]
        if not tensors:
            raise ValueError("no input has a gradient: its direction is forward")
        return tensors

    def can_have_gradient(self, name, tensor):
        return (tensor.is_floating_point() or tensor.is_complex()) and self.wants_gradient.get(name, True)

    def dtypes(self):
        """Return the names of the dtypes of tensors and of a module's parameters."""
        tensors = list(self.tensors.values()) + list(self.parameters.values())
        return {str(tensor.dtype)[len(ROOT) :] for tensor in tensors}


def numpy_name(dtype):
    """Return the name of the NumPy dtype in which a tensor's values are drawn."""
    return "float32" if dtype == torch.bfloat16 else numpy.dtype(str(dtype)[len(ROOT) :]).name


def object_by_name(text):
    """Return the dtype, layout or memory format that a string such as "torch.float16" names, or else the string."""
    member = getattr(torch, text[len(ROOT) :], None) if text.startswith(ROOT) else None
    return member if isinstance(member, OBJECTS) else text
