"""Convert a call's results to named tensors, and these to NumPy arrays."""

import numpy
import torch

# Dtypes that NumPy lacks.  A float32 holds each of their values, and is compared by the original dtype's tolerance.
AS_FLOAT32 = {torch.bfloat16: "bfloat16"}


def to_tensor(array, dtype, device):
    """Return a new tensor of an array's values."""
    return torch.tensor(numpy.asarray(array), dtype=dtype, device=device)


def to_numpy(tensor):
    """Return a tensor's values as a NumPy array: sparse and quantized ones dense, bfloat16 as float32."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.dtype in AS_FLOAT32:
        tensor = tensor.to(torch.float32)
    return tensor.cpu().resolve_conj().resolve_neg().numpy()


def named_tensors(name, result):
    """Return ``(name, tensor)`` of each output, also in tuples, lists and dicts; numbers become tensors.

    Raise TypeError for any other value.
    """
    if result is None:
        return []
    if isinstance(result, torch.Tensor):
        return [(name, result)]
    if isinstance(result, dict):
        return [pair for key in sorted(result, key=str) for pair in named_tensors(f"{name}[{key!r}]", result[key])]
    if isinstance(result, (list, tuple)):
        return [pair for i, item in enumerate(result) for pair in named_tensors(f"{name}[{i}]", item)]
    if isinstance(result, (bool, int, float, complex)):
        return [(name, torch.tensor(result))]
    raise TypeError(f"{name}: a {type(result).__name__} is not a tensor")


def precisions(tensors):
    """Return name -> original dtype of those ``(name, tensor)`` that become float32."""
    return {name: AS_FLOAT32[tensor.dtype] for name, tensor in tensors if tensor.dtype in AS_FLOAT32}


def changed_tensors(tensors, before):
    """Return ``(name, tensor)`` of tensors whose bytes differ from those ``before`` the call, a dict by name."""
    return [
        (name + " after the call", tensor)
        for name, tensor in tensors.items()
        if to_numpy(tensor).tobytes() != before[name]
    ]
