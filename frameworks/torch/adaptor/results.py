"""Tensors of what a call returns, by name, as NumPy arrays."""

import numpy
import torch

# NumPy has none of these.  A float32 holds every value of theirs, and is compared by the tolerance of what it was.
AS_FLOAT32 = {torch.bfloat16: "bfloat16"}


def to_tensor(array, dtype, device):
    """A tensor of its own of an array's values."""
    return torch.tensor(numpy.asarray(array), dtype=dtype, device=device)


def plain(tensor):
    """A NumPy array of a tensor's values: a sparse or quantized one filled up, bfloat16 as float32."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.dtype in AS_FLOAT32:
        tensor = tensor.to(torch.float32)
    return tensor.cpu().resolve_conj().resolve_neg().numpy()


def named_tensors(name, result):
    """``(name, tensor)`` of each output: also in tuples, lists and dicts; plain numbers as tensors.

    Raises TypeError for what is no number.
    """
    if result is None:
        return []
    if isinstance(result, torch.Tensor):
        return [(name, result)]
    if isinstance(result, dict):
        return [one for key in sorted(result, key=str) for one in named_tensors(f"{name}[{key!r}]", result[key])]
    if isinstance(result, (list, tuple)):
        return [one for i, item in enumerate(result) for one in named_tensors(f"{name}[{i}]", item)]
    if isinstance(result, (bool, int, float, complex)):
        return [(name, torch.tensor(result))]
    raise TypeError(f"{name}: a {type(result).__name__} is not a tensor")


def precisions(tensors):
    """name -> what the values of a float32 were rounded to, of those ``(name, tensor)`` for which that is less."""
    return {name: AS_FLOAT32[one.dtype] for name, one in tensors if one.dtype in AS_FLOAT32}


def changed(tensors, before):
    """``(name, tensor)`` of those whose values are no longer the bytes ``before``."""
    return [(name + " after the call", one) for name, one in tensors.items() if plain(one).tobytes() != before[name]]
