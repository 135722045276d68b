"""Make modules from a case's JSON, with weights from the seed.

Inputs of the case that the constructor takes go there, ``layers`` are the modules of a container, and the others are
arguments of the call.
"""

import inspect

import torch

from opduel_common.names import MissingOperator, UnusableCall, constructor_parameters, resolve
from opduel_common.values import draw_parameter

from .results import to_tensor

LAYERS = "layers"
BLOCK = "block"  # the name of a module within a constructor's arguments


def is_module(operator):
    return inspect.isclass(operator) and issubclass(operator, torch.nn.Module)


def call_parameters(kind):
    """Return the names of ``forward``'s parameters."""
    parameters = list(inspect.signature(kind.forward).parameters.values())[1:]
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def make_module(plain, inputs):
    """Return the module that ``{"block": name, ...}`` describes."""
    name = plain[BLOCK]
    try:
        kind = resolve(name)[0]
    except MissingOperator as error:
        raise UnusableCall(str(error)) from None
    if not is_module(kind):
        raise UnusableCall(f"{name} is not a module")
    return construct(kind, {key: inputs.attribute(value) for key, value in plain.items() if key != BLOCK})


def construct(kind, arguments):
    """Return a module; lists become tuples, as constructors expect."""
    layers = arguments.pop(LAYERS, ())
    return kind(
        *layers,
        **{key: tuple(argument) if isinstance(argument, list) else argument for key, argument in arguments.items()},
    )


class ModuleCall:
    """A case's module and the arguments of its call."""

    def __init__(self, case, kind, inputs):
        """Make the module. ``inputs``, the Inputs of the case, makes the tensors and gets the trained parameters."""
        call_inputs, constructor_names = (
            dict(case["inputs"]),
            [*(parameter.name for parameter in constructor_parameters(kind, torch.nn.Module)), LAYERS],
        )
        inputs.seed_generators()
        constructor_inputs = {key: call_inputs.pop(key) for key in list(call_inputs) if key in constructor_names}
        self.module = construct(kind, {key: plain_value(value, inputs) for key, value in constructor_inputs.items()})
        self.args = inputs.values("args", call_inputs.pop("args", []))
        call_names = call_parameters(kind)
        for key in call_inputs:
            if call_names and key not in call_names:
                words = "{} is neither an argument of the constructor ({}) nor of the call ({})"
                raise ValueError(words.format(key, ", ".join(constructor_names), ", ".join(call_names)))
        self.kwargs = inputs.named_values("", call_inputs)
        self.initialize(case, inputs)

    def initialize(self, case, inputs):
        """Set dtype, device and mode; draw parameters and buffers from the seed and their names."""
        dtype = getattr(torch, case["dtype"])
        self.module.to(device=inputs.device, dtype=dtype if dtype.is_floating_point else None)
        is_trained = case["direction"] != "forward"
        self.module.train(is_trained)
        with torch.no_grad():
            for name, tensor in [*self.module.named_parameters(), *self.module.named_buffers()]:
                if tensor.is_floating_point():
                    random = inputs.random("parameter " + name)
                    values = draw_parameter(random, tensor.shape, is_scale(name, tensor.shape))
                    tensor.copy_(to_tensor(values, tensor.dtype, tensor.device))
        for name, tensor in self.module.named_parameters():
            inputs.parameters[name] = tensor.requires_grad_(is_trained)


def plain_value(value, inputs):
    """Return a constructor's argument, in which a list is a list and not a shape."""
    if isinstance(value, dict) and "call" in value:
        return inputs.value("constructor", value)
    return inputs.attribute(value["value"] if isinstance(value, dict) and "value" in value else value)


def is_scale(name, shape):
    """Return whether a normalization scales by a parameter of this name."""
    last = name.rpartition(".")[2]
    return last == "running_var" or (last == "weight" and len(shape) == 1)
