"""What a case computes: its outputs, its gradients, and the arguments that it changed, written to files."""

import hashlib
import os
import random
import zlib

import mxnet as mx
import numpy


def results(case, seed, inputs, operator, args, kwargs, folder, limit):
    """Compute a case once, with every generator of random numbers seeded, and write what came of it to ``folder``.

    A list of {"name", "dtype", "shape", "storage", "file", "count"}: a file holds the first ``count`` elements in C
    order, all of them if they are at most ``limit`` bytes.
    """
    before = {name: plain(tensor) for name, tensor in inputs.tensors.items()}
    seed_generators(seed)
    if case["direction"] == "forward":
        found = outputs(operator(*args, **kwargs))
    else:
        found = backward(case, seed, inputs, operator, args, kwargs)
    mx.nd.waitall()
    for name, tensor in inputs.tensors.items():
        if plain(tensor).tobytes() != before[name].tobytes():
            found.append((name + " after the call", tensor))
    return [write(number, name, value, folder, limit) for number, (name, value) in enumerate(found)]


def seed_generators(seed):
    """Every generator of random numbers that an operator may draw from."""
    for generator in (mx.random.seed, numpy.random.seed, random.seed):
        generator(seed & 0x7FFFFFFF)


def digest_of(inputs):
    """The SHA-256 of all tensors and parameters: names, dtypes, shapes and values."""
    found = hashlib.sha256()
    values = dict(inputs.tensors)
    values.update(("parameter " + name, one.data()) for name, one in inputs.parameters.items())
    for name in sorted(values):
        array = numpy.ascontiguousarray(plain(values[name]))
        found.update("{}|{}|{}|".format(name, array.dtype.str, array.shape).encode("utf-8"))
        found.update(array.tobytes())
    return found.hexdigest()


def backward(case, seed, inputs, operator, args, kwargs):
    """The gradients, and of direction "both" the outputs before them."""
    wanted = inputs.attach_gradients()
    with mx.autograd.record():
        found = outputs(operator(*args, **kwargs))
    heads = [head for _, head in found]
    weights = [head_gradient(head, seed, case["id"], number) for number, head in enumerate(heads)]
    mx.autograd.backward(heads, head_grads=weights)
    gradients = [("gradient of " + name, gradient) for name, gradient in wanted]
    return gradients if case["direction"] == "backward" else found + gradients


def head_gradient(head, seed, case_id, number):
    """Random weights of an output's elements: their plain sum, MXNet's default, hides much (softmax's is always 1)."""
    if getattr(head, "stype", "default") != "default" or numpy.dtype(head.dtype).kind != "f":
        return None
    key = "{}|{}|head {}".format(seed, case_id, number)
    generator = numpy.random.RandomState(zlib.crc32(key.encode("utf-8")) & 0xFFFFFFFF)
    make = mx.nd.array if type(head) is mx.nd.NDArray else mx.np.array
    return make(generator.normal(size=head.shape).astype(head.dtype), dtype=head.dtype, ctx=head.context)


def outputs(result, name="output"):
    """``(name, value)`` of each output: ``output``, or ``output[0]`` and so on, of lists within lists, too."""
    if not isinstance(result, (list, tuple)):
        return [] if result is None else [(name, result)]
    found = []
    for number, one in enumerate(result):
        found += outputs(one, "{}[{}]".format(name, number))
    return found


def plain(value):
    """A numpy array of whatever an operator returns; sparse ones are filled up."""
    return numpy.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)


def write(number, name, value, folder, limit):
    array = numpy.ascontiguousarray(plain(value))
    if array.dtype.kind not in "biuf":
        raise TypeError("{}: a {} is not a number".format(name, type(value).__name__))
    count = min(array.size, max(1, limit // array.dtype.itemsize))
    path = os.path.join(folder, "{}.bin".format(number))
    array.reshape(-1)[:count].tofile(path)
    return {
        "name": name,
        "dtype": array.dtype.str,
        "shape": list(plain(value).shape),
        "storage": getattr(value, "stype", "default"),
        "file": os.path.basename(path),
        "count": count,
    }
