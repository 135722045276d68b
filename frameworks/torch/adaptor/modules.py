"""Modules: made from plain data, with weights from the seed, then called.

Of a case's inputs those that the constructor takes go there, ``layers`` are the modules of a container, and the others
are arguments of the call.
"""

import inspect

import numpy
import torch

from opduel_common.names import MissingOperator, UnusableCall, resolve

from .results import to_tensor

LAYERS = "layers"
BLOCK = "block"  # of a module within a constructor's arguments


def is_module(found):
    return inspect.isclass(found) and issubclass(found, torch.nn.Module)


def constructor_parameters(kind):
    """Names of the constructor's parameters, those of its bases too where it hands on what it doesn't know."""
    names = []
    for base in kind.__mro__:
        if "__init__" not in vars(base) or base is torch.nn.Module:
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        named = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        names += [name for name in named if name not in names]
        if not any(one.kind == one.VAR_KEYWORD for one in parameters):
            break
    return names


def call_parameters(kind):
    """Names of what ``forward`` takes."""
    parameters = list(inspect.signature(kind.forward).parameters.values())[1:]
    return [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]


def made_of(plain, inputs):
    """The module that ``{"block": name, ...}`` describes."""
    name = plain[BLOCK]
    try:
        kind = resolve(name)[0]
    except MissingOperator as error:
        raise UnusableCall(str(error)) from None
    if not is_module(kind):
        raise UnusableCall(f"{name} is not a module")
    return constructed(kind, {key: inputs.attribute(value) for key, value in plain.items() if key != BLOCK})


def constructed(kind, arguments):
    """A module; lists become tuples, as constructors expect them."""
    layers = arguments.pop(LAYERS, ())
    return kind(*layers, **{key: tuple(one) if isinstance(one, list) else one for key, one in arguments.items()})


class ModuleCall:
    """A case's module, ready to be called."""

    def __init__(self, case, kind, inputs):
        """``inputs``: an Inputs of the case, which makes the tensors, and gets the parameters that are trained."""
        given, taken = dict(case["inputs"]), [*constructor_parameters(kind), LAYERS]
        inputs.seed_generators()
        own = {key: given.pop(key) for key in list(given) if key in taken}
        self.module = constructed(kind, {key: plain_value(value, inputs) for key, value in own.items()})
        self.args = inputs.values("args", given.pop("args", []))
        known = call_parameters(kind)
        for key in given:
            if known and key not in known:
                words = "{} is neither an argument of the constructor ({}) nor of the call ({})"
                raise ValueError(words.format(key, ", ".join(taken), ", ".join(known)))
        self.kwargs = inputs.named_values("", given)
        self.settle(case, inputs)

    def settle(self, case, inputs):
        """Dtype, device and mode; values of parameters and states from the seed and their names."""
        dtype = getattr(torch, case["dtype"])
        self.module.to(device=inputs.device, dtype=dtype if dtype.is_floating_point else None)
        trained = case["direction"] != "forward"
        self.module.train(trained)
        with torch.no_grad():
            for name, one in [*self.module.named_parameters(), *self.module.named_buffers()]:
                if one.is_floating_point():
                    one.copy_(
                        to_tensor(drawn(inputs.random("parameter " + name), name, one.shape), one.dtype, one.device)
                    )
        for name, one in self.module.named_parameters():
            inputs.parameters[name] = one.requires_grad_(trained)


def plain_value(value, inputs):
    """What a constructor gets for plain data: a list is itself, and no shape."""
    if isinstance(value, dict) and "call" in value:
        return inputs.value("constructor", value)
    return inputs.attribute(value["value"] if isinstance(value, dict) and "value" in value else value)


def drawn(random, name, shape):
    """Values of a parameter, as an array: of size 1 or so, that outputs neither vanish nor explode."""
    last = name.rpartition(".")[2]
    if last == "running_var" or (last == "weight" and len(shape) == 1):  # of a normalization: they scale
        return random.uniform(0.5, 1.5, size=tuple(shape))
    return random.normal(size=tuple(shape)) / numpy.sqrt(max(1, int(numpy.prod(shape[1:]))))
