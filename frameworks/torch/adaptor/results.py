"""Convert a call's results to named tensors, and these to NumPy arrays."""

import numpy
import torch

from opduel_common.results import flatten

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
    """Return ``(name, tensor)`` of each output, also in tuples, lists and dicts; numbers become tensors. Raise
    TypeError for any other value."""
    return flatten(name, result, named_tensor)


def named_tensor(name, value):
    if isinstance(value, (bool, int, float, complex)):
        value = torch.tensor(value)
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: a {type(value).__name__} is not a tensor")
    return [(name, value)]


def precisions(tensors):
    """Return name -> original dtype of those ``(name, tensor)`` that become float32."""
    return {name: AS_FLOAT32[tensor.dtype] for name, tensor in tensors if tensor.dtype in AS_FLOAT32}
