"""Make modules from a case's JSON, with weights from the seed.

Inputs of the case that the constructor takes go there, ``layers`` are the modules of a container, and the others are
arguments of the call.
"""

import inspect

import torch

from opduel_common.names import MissingOperator, UnusableCall, constructor_names, resolve
from opduel_common.scripts import list_arguments
from opduel_common.values import draw_parameter

from .results import to_tensor

LAYERS = "layers"
BLOCK = "block"  # the name of a module within a constructor's arguments


def is_module(operator):
    return inspect.isclass(operator) and issubclass(operator, torch.nn.Module)


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
    tuples = {key: tuple(argument) for key, argument in arguments.items() if isinstance(argument, list)}
    arguments.update(tuples)
    return kind(*arguments.pop(LAYERS, ()), **arguments)


def module_call(case, kind, inputs):
    """Return a case's module, and the ``args`` and ``kwargs`` of its call.

    ``inputs``, the Inputs of the case, makes the tensors and gets the trained parameters.
    """
    call_inputs, made_of = dict(case["inputs"]), [*constructor_names(kind), LAYERS]
    inputs.seed_generators()
    constructor_inputs = {key: call_inputs.pop(key) for key in list(call_inputs) if key in made_of}
    module = construct(kind, {key: plain_value(value, inputs) for key, value in constructor_inputs.items()})
    args = inputs.values("args", call_inputs.pop("args", []))
    call_names = [name for name, _ in list_arguments(inspect.signature(kind.forward).parameters.values(), ["self"])]
    for key in call_inputs:
        if call_names and key not in call_names:
            of_constructor, of_call = ", ".join(made_of), ", ".join(call_names)
            raise ValueError(
                f"{key} is neither an argument of the constructor ({of_constructor}) nor of the call ({of_call})"
            )
    kwargs = inputs.named_values("", call_inputs)
    initialize(module, case, inputs)
    return module, args, kwargs


def initialize(module, case, inputs):
    """Set dtype, device and mode; draw parameters and buffers from the seed and their names."""
    dtype = getattr(torch, case["dtype"])
    module.to(device=inputs.device, dtype=dtype if dtype.is_floating_point else None)
    is_trained = case["direction"] != "forward"
    module.train(is_trained)
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point():
                values = draw_parameter(inputs.random("parameter " + name), tensor.shape, is_scale(name, tensor.shape))
                tensor.copy_(to_tensor(values, tensor.dtype, tensor.device))
    for name, tensor in module.named_parameters():
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
