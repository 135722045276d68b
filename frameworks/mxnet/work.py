"""Compute the least work of an operator from a case's shapes, where a formula is known.

A product of matrices (m, k) and (k, n) counts 2 m k n operations.  Bytes are the compulsory traffic: every input is
read once, every output written once.  Transcendental functions have no agreed number of operations, but known bytes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy

from opduel.records import Case, Work

SIZES = {"float16": 2, "float32": 4, "float64": 8, "int8": 1, "uint8": 1, "bool": 1, "int32": 4, "int64": 8}
Shape = tuple[int, ...]


class _UnknownError(Exception):
    """No formula holds for these inputs."""


@dataclass(frozen=True)
class _Amount:
    """``flop`` operations (None: unknown), ``read`` and ``written`` elements."""

    flop: float | None
    read: float
    written: float


@dataclass(frozen=True)
class _Call:
    """A case's inputs, by name."""

    inputs: Mapping[str, Any]

    def shape(self, *names: str) -> Shape:
        """Return the shape of the tensor with one of these names. Raise _UnknownError if there is none."""
        for name in names:
            value = self.inputs.get(name)
            shape = value.get("shape") if isinstance(value, Mapping) else value
            if isinstance(shape, list) and all(isinstance(size, int) for size in shape):
                return tuple(shape)
        raise _UnknownError

    def optional(self, name: str) -> int:
        """Return the number of elements of a tensor, 0 if there is none."""
        return math.prod(self.shape(name)) if name in self.inputs else 0

    def attribute(self, name: str, default: Any) -> Any:
        value = self.inputs.get(name, default)
        return value["value"] if isinstance(value, Mapping) and "value" in value else value

    def per_axis(self, name: str, axes: int, default: int) -> Shape:
        """Return a kernel's stride and the like: one number for each axis."""
        value = self.attribute(name, None)
        if value in (None, [], ()):
            return (default,) * axes
        if not isinstance(value, list) or len(value) != axes:
            raise _UnknownError
        return tuple(value)


Formula = Callable[[_Call, str], _Amount]


def work(case: Case) -> Work | None:
    """Return the work of one call of ``case``, in its direction, or None if no formula is known."""
    formula = FORMULAS.get(case.operator.partition(".")[2])
    directions = ("forward", "backward") if case.direction == "both" else (case.direction,)
    tensors = [value for value in case.inputs.values() if isinstance(value, Mapping)]
    dtypes = {case.dtype, *(tensor.get("dtype", case.dtype) for tensor in tensors)}
    stypes = {tensor.get(name) for tensor in tensors for name in ("stype", "grad_stype")}
    is_sparse = bool(stypes - {None, "default", "numpy"})  # the number of stored elements is unknown
    if formula is None or case.dtype not in SIZES or len(dtypes) > 1 or is_sparse:
        return None
    try:
        return _sum([formula(_Call(case.inputs), direction) for direction in directions], case.dtype)
    except (_UnknownError, ArithmeticError, LookupError, TypeError, ValueError):  # arguments that make no sense
        return None


def _sum(amounts: Sequence[_Amount], dtype: str) -> Work:
    """Return the sum as Work. Raise _UnknownError for impossible amounts, as of a kernel larger than its image."""
    flops = [amount.flop for amount in amounts]
    flop = None if None in flops else float(sum(flop_of_amount or 0.0 for flop_of_amount in flops))
    size = float(SIZES[dtype] * sum(amount.read + amount.written for amount in amounts))
    if not all(0 <= figure < math.inf for figure in (flop or 0.0, size)):
        raise _UnknownError
    return Work(flop, size, dtype)


def _product(direction: str, first: Shape, second: Shape, out: Shape, inner: int, extra: int = 0) -> _Amount:
    """Return the amount of a matrix product, or of two for the inputs' gradients. ``extra``: elements of a bias."""
    a, b, c = math.prod(first), math.prod(second), math.prod(out)
    if direction == "forward":
        return _Amount(2.0 * c * inner + (c if extra else 0), a + b + extra, c)
    return _Amount(4.0 * c * inner + (c if extra else 0), a + b + c, a + b + extra)


def _dot(call: _Call, direction: str, most_axes: float = math.inf) -> _Amount:
    """Return the amount of a product of (stacks of) matrices, as of nd.dot and nd.batch_dot."""
    first, second = call.shape("lhs", "a", "A"), call.shape("rhs", "b", "B")
    if len(first) < 2 or len(first) > most_axes or len(first) != len(second) or first[:-2] != second[:-2]:
        raise _UnknownError
    rows, inner = first[-2:][::-1] if call.attribute("transpose_a", False) else first[-2:]
    again, columns = second[-2:][::-1] if call.attribute("transpose_b", False) else second[-2:]
    is_other = {"C", "axis", *(["a"] if len(first) > 2 else [])} & call.inputs.keys()
    if inner != again or is_other:
        raise _UnknownError
    return _product(direction, first, second, (*first[:-2], rows, columns), inner)


def _fully_connected(call: _Call, direction: str) -> _Amount:
    data, weight = call.shape("data", "x"), call.shape("weight")
    if call.attribute("flatten", True):
        data = (data[0], math.prod(data[1:]))
    return _product(direction, data, weight, (*data[:-1], weight[0]), data[-1], call.optional("bias"))


def _window(call: _Call, axes: int) -> tuple[Shape, Shape, Shape, Shape]:
    """Return a kernel's size, stride, dilation and padding, for a layout with channels second."""
    if call.attribute("layout", None) not in (None, "NCW", "NCHW", "NCDHW"):
        raise _UnknownError
    kernel, stride, dilate = (call.per_axis(name, axes, 1) for name in ("kernel", "stride", "dilate"))
    return kernel, stride, dilate, call.per_axis("pad", axes, 0)


def _convolution(call: _Call, direction: str) -> _Amount:
    """Return the amount: each output is a sum over the kernel and the channels of its group."""
    data, weight = call.shape("data"), call.shape("weight")
    kernel, stride, dilate, pad = _window(call, len(data) - 2)
    spatial = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(data[2:], kernel, stride, pad, dilate, strict=True)
    ]
    out = (data[0], weight[0], *spatial)
    return _product(direction, data, weight, out, math.prod(weight[1:]), call.optional("bias"))


def _deconvolution(call: _Call, direction: str) -> _Amount:
    """Return the amount: each input adds to one output for each element of the kernel and channel of its group."""
    data, weight = call.shape("data"), call.shape("weight")
    kernel, stride, dilate, pad = _window(call, len(data) - 2)
    if "target_shape" in call.inputs:
        raise _UnknownError
    adj = call.per_axis("adj", len(kernel), 0)
    spatial = [
        (size - 1) * s - 2 * p + d * (k - 1) + 1 + a
        for size, k, s, p, d, a in zip(data[2:], kernel, stride, pad, dilate, adj, strict=True)
    ]
    channels = weight[1] * int(call.attribute("num_group", 1))
    out, inputs, bias = data[0] * channels * math.prod(spatial), math.prod(data), call.optional("bias")
    flop = 2.0 * inputs * math.prod(weight[1:])
    if direction == "forward":
        return _Amount(flop + (out if bias else 0), inputs + math.prod(weight) + bias, out)
    return _Amount(2 * flop + (out if bias else 0), inputs + math.prod(weight) + out, inputs + math.prod(weight) + bias)


def _elementwise(operands: Sequence[tuple[str, ...]], flop: bool) -> Formula:
    """Return the formula of an elementwise operator with broadcasting; each operand has one of several names.

    ``flop``: whether it has one operation for each element of the output, or an unknown number.
    """

    def formula(call: _Call, direction: str) -> _Amount:
        if direction != "forward":  # gradients of operators read different tensors
            raise _UnknownError
        shapes = [call.shape(*names) for names in operands]
        n = math.prod(numpy.broadcast_shapes(*shapes))
        return _Amount(float(n) if flop else None, sum(map(math.prod, shapes)), n)

    return formula


_unary = partial(_elementwise, [("data", "x", "a")])
_binary = partial(_elementwise, [("lhs", "x1"), ("rhs", "x2")])


def _reduction(call: _Call, direction: str) -> _Amount:
    """Return the amount: one operation for each element read."""
    data = call.shape("data", "a")
    if direction != "forward" or call.attribute("exclude", False):
        raise _UnknownError
    axis = call.attribute("axis", None)
    reduced_axes: Sequence[int] = range(len(data)) if axis in (None, []) else axis if isinstance(axis, list) else [axis]
    reduced = {index % len(data) for index in reduced_axes} if data else set()
    written = math.prod(size for number, size in enumerate(data) if number not in reduced)
    return _Amount(float(math.prod(data)), math.prod(data), written)


def _softmax(call: _Call, direction: str) -> _Amount:
    """Return the amount; backward reads the output and its gradient."""
    n = math.prod(call.shape("data"))
    if set(call.inputs) - {"data", "axis", "temperature"}:
        raise _UnknownError
    return _Amount(None, n if direction == "forward" else 2 * n, n)


def _copy(call: _Call, direction: str) -> _Amount:
    """Return the amount: forward and backward move every element and compute nothing."""
    n = math.prod(call.shape("data", "a"))
    return _Amount(0.0, n, n)


ARITHMETIC = ("add", "sub", "mul", "div")
FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("batch_dot", "linalg.gemm2", "matmul"), _dot),
    **dict.fromkeys(("dot", "np.dot"), partial(_dot, most_axes=2)),  # with more axes it sums over other ones
    **dict.fromkeys(("FullyConnected", "fully_connected"), _fully_connected),
    **dict.fromkeys(("Convolution", "convolution"), _convolution),
    **dict.fromkeys(("Deconvolution", "deconvolution"), _deconvolution),
    **{f"{kind}_{name}": _binary(True) for kind in ("broadcast", "elemwise") for name in ARITHMETIC},
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "true_divide"), _binary(True)),
    **dict.fromkeys(("broadcast_maximum", "broadcast_minimum", "broadcast_power", "broadcast_hypot"), _binary(False)),
    **dict.fromkeys(("abs", "absolute", "negative", "square", "relu", "sqrt", "reciprocal"), _unary(True)),
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "tanh"), _unary(False)),
    **dict.fromkeys(("sigmoid", "erf", "arctan", "sinh", "cosh", "cbrt", "rsqrt", "gamma", "gammaln"), _unary(False)),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod"), _reduction),
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), _softmax),
    **dict.fromkeys(("transpose", "flip", "swapaxes"), _copy),
}
