"""Turn a case's JSON into arguments: tensors whose values come from the seed, modules, results of calls, values."""

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

    def dense_tensor(self, array, dtype):
        return to_tensor(array, getattr(torch, dtype), self.device)

    def differentiable_tensors(self):
        """Return ``(name, tensor)`` of the inputs and parameters that get gradients. Raise ValueError if there are
        none."""
        tensors = [(name, self.tensors[name].requires_grad_()) for name in self.differentiable_names()]
        tensors += [(name, parameter.requires_grad_()) for name, parameter in self.parameters.items()]
        if not tensors:
            raise ValueError("no input has a gradient: its direction is forward")
        return tensors

    def is_differentiable(self, tensor):
        return tensor.is_floating_point() or tensor.is_complex()

    def dtypes(self):
        """Return the names of the dtypes of tensors and of a module's parameters."""
        tensors = list(self.tensors.values()) + list(self.parameters.values())
        return {str(tensor.dtype)[len(ROOT) :] for tensor in tensors}


def object_by_name(text):
    """Return the dtype, layout or memory format that a string such as "torch.float16" names, or else the string."""
    member = getattr(torch, text[len(ROOT) :], None) if text.startswith(ROOT) else None
    return member if isinstance(member, OBJECTS) else text
