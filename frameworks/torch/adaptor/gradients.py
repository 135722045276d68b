"""Backward by autograd: the gradients of a call's outputs with respect to its inputs and parameters."""

import zlib

import numpy
import torch

from .results import named_tensors, to_tensor

try:  # what the first gradient of a process imports, 0.4 s that each case's process would need again
    import torch.fx.experimental.symbolic_shapes
except ImportError:  # no gradient of that release needs it
    pass


def heads_of(result):
    """``(name, output)`` of those that a gradient can start from. Raises ValueError if there is none."""
    found = [(name, one) for name, one in named_tensors("output", result) if one.requires_grad]
    if not found:
        raise ValueError("no output depends on an input with a gradient: its direction is forward")
    return found


def heads_and_weights(function, args, kwargs):
    """A call's outputs, and ones like them, made before anything is timed."""
    heads = [one for _, one in heads_of(function(*args, **kwargs))]
    return heads, [torch.ones_like(head) for head in heads]


def backward_call(function, args, kwargs, wanted):
    """Backward alone: the graph is recorded once and kept.

    ``torch.autograd.grad`` makes the gradients and adds them to none that was there before, as a step of training does
    after ``zero_grad``.
    """
    heads, weights = heads_and_weights(function, args, kwargs)
    inputs = [one for _, one in wanted]

    def call():
        torch.autograd.grad(heads, inputs, weights, retain_graph=True, allow_unused=True)

    call()  # a graph that can't be kept says so now
    return call


def both_call(function, args, kwargs, wanted):
    """Forward, recorded, then backward, as in training."""
    weights = heads_and_weights(function, args, kwargs)[1]
    inputs = [one for _, one in wanted]
    single = len(weights) == 1

    def call():
        result = function(*args, **kwargs)
        heads = [result] if single and isinstance(result, torch.Tensor) else [one for _, one in heads_of(result)]
        torch.autograd.grad(heads, inputs, weights, allow_unused=True)

    return call


def gradients_of(case, seed, wanted, function, args, kwargs):
    """``(name, tensor)`` of the gradients, and of direction "both" of the outputs before them."""
    result = function(*args, **kwargs)
    heads = heads_of(result)
    weights = [head_gradient(head, seed, case["id"], number) for number, (_, head) in enumerate(heads)]
    found = torch.autograd.grad([head for _, head in heads], [one for _, one in wanted], weights, allow_unused=True)
    gradients = [("gradient of " + name, one) for (name, _), one in zip(wanted, found) if one is not None]
    return gradients if case["direction"] == "backward" else named_tensors("output", result) + gradients


def head_gradient(head, seed, case_id, number):
    """Random weights of an output's elements: their plain sum hides much (softmax's is always 1)."""
    key = f"{seed}|{case_id}|head {number}"
    generator = numpy.random.RandomState(zlib.crc32(key.encode("utf-8")) & 0xFFFFFFFF)
    return to_tensor(generator.normal(size=tuple(head.shape)), head.dtype, head.device)
