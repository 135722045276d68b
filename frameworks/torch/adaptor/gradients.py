"""Compute by autograd the gradients of a call's outputs with respect to its inputs and parameters."""

import torch

from opduel_common.values import draw_head_gradient

from .results import named_tensors, to_tensor

try:  # a process's first gradient imports this, for 0.4 s in each case's process
    import torch.fx.experimental.symbolic_shapes
except ImportError:  # this release doesn't need it
    pass


def heads_of(result):
    """Return ``(name, output)`` of the outputs that depend on a gradient's inputs. Raise ValueError if none does."""
    heads = [(name, output) for name, output in named_tensors("output", result) if output.requires_grad]
    if not heads:
        raise ValueError("no output depends on an input with a gradient: its direction is forward")
    return heads


def heads_and_weights(function, args, kwargs):
    """Return a call's outputs, and tensors of ones of the same shapes."""
    heads = [output for _, output in heads_of(function(*args, **kwargs))]
    return heads, [torch.ones_like(head) for head in heads]


def backward_call(function, args, kwargs, named_inputs):
    """Return a function that runs backward alone, on a graph that is recorded once.

    ``torch.autograd.grad`` makes new gradients without adding to earlier ones, as in training after ``zero_grad``.
    """
    heads, weights = heads_and_weights(function, args, kwargs)
    inputs = [tensor for _, tensor in named_inputs]

    def call():
        torch.autograd.grad(heads, inputs, weights, retain_graph=True, allow_unused=True)

    call()  # raises if the graph can't be retained
    return call


def both_call(function, args, kwargs, named_inputs):
    """Return a function that runs forward, recording the graph, and then backward, as in training."""
    weights = heads_and_weights(function, args, kwargs)[1]
    inputs = [tensor for _, tensor in named_inputs]
    single = len(weights) == 1

    def call():
        result = function(*args, **kwargs)
        heads = [result] if single and isinstance(result, torch.Tensor) else [head for _, head in heads_of(result)]
        torch.autograd.grad(heads, inputs, weights, allow_unused=True)

    return call


def gradients_of(case, seed, named_inputs, function, args, kwargs):
    """Return ``(name, tensor)`` of the gradients, and for direction "both" of the outputs before them."""
    result = function(*args, **kwargs)
    heads = heads_of(result)
    weights = [head_gradient(head, seed, case["id"], number) for number, (_, head) in enumerate(heads)]
    raw_gradients = torch.autograd.grad(
        [head for _, head in heads], [tensor for _, tensor in named_inputs], weights, allow_unused=True
    )
    gradients = [
        ("gradient of " + name, gradient)
        for (name, _), gradient in zip(named_inputs, raw_gradients)
        if gradient is not None
    ]
    return gradients if case["direction"] == "backward" else named_tensors("output", result) + gradients


def head_gradient(head, seed, case_id, number):
    return to_tensor(draw_head_gradient(seed, case_id, number, head.shape), head.dtype, head.device)
