"""MXNet's operators as the worker runs them: inputs from a seed, one synchronous call, forward or backward.

Runs inside the build: standard library, numpy and MXNet only, Python 3.6 syntax, MXNet 1.4 and up.
"""

import ctypes
import re
import zlib

import mxnet as mx
import numpy
from mxnet import base

ROOTS = ("nd", "np", "npx")
# The namespaces that need numpy semantics switched on.
NUMPY_ROOTS = ("np", "npx")
# Registered names carry their namespace as a prefix.
REGISTERED_PREFIXES = {
    "": ("",),
    "linalg": ("_linalg_",),
    "contrib": ("_contrib_",),
    "random": ("_random_", "_sample_"),
    "image": ("_image_",),
    "sparse": ("",),
    "op": ("",),
    "_internal": ("",),
    "np": ("_np_", "_npi_", ""),
    "npx": ("_npx_", ""),
}
# States that an operator updates in place: no gradient flows to them.
AUXILIARY = re.compile(r"^moving_(mean|var|inv_var)$")


class MissingOperator(Exception):
    """This build has no operator of that name."""

    kind = "missing"


def versions():
    """What the controller is told once the framework is imported."""
    return {"framework": mx.__version__, "numpy": numpy.__version__}


def telling_line(message):
    """The line of an error message that says what is wrong: 1.9's begin with C++ frames and end with it.

    Time and place are left out: ``[12:05:32] ../src/imperative/utils.h:369: Check failed: ...``.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return re.sub(r"^\[\d\d:\d\d:\d\d\] \S+:\d+: ", "", line)


def resolve(name):
    """The Python function for ``nd.Convolution``, ``nd.linalg.gemm2``, ``np.add``..."""
    parts = name.split(".")
    if parts[0] not in ROOTS:
        raise ValueError(f"{name}: operators live under {', '.join(ROOTS)}")
    found = mx
    for part in parts:
        found = getattr(found, part, None)
        if found is None:
            raise MissingOperator(f"mxnet {mx.__version__} has no operator {name}")
    if not callable(found):
        raise MissingOperator(f"{name} is not an operator")
    return found


def registered_types(name):
    """``{argument: type}`` of a registered operator, or None; by the C API, which all versions share."""
    handle = base.OpHandle()
    try:
        base.check_call(base._LIB.NNGetOpHandle(base.c_str(name), ctypes.byref(handle)))
    except base.MXNetError:
        return None
    text = ctypes.c_char_p()
    count = base.mx_uint()
    names, types, descriptions = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    base.check_call(
        base._LIB.MXSymbolGetAtomicSymbolInfo(
            handle,
            ctypes.byref(text),
            ctypes.byref(text),
            ctypes.byref(count),
            ctypes.byref(names),
            ctypes.byref(types),
            ctypes.byref(descriptions),
            ctypes.byref(text),
            ctypes.byref(text),
        )
    )
    return {base.py_str(names[i]): base.py_str(types[i]) for i in range(count.value)}


def argument_types(operator):
    """``{argument: type}`` for an operator as the user names it; empty for a function written in Python."""
    parts = operator.split(".")
    for prefix in REGISTERED_PREFIXES.get(parts[-2] if parts[-2] != "nd" else "", ("",)):
        types = registered_types(prefix + parts[-1])
        if types is not None:
            return types
    return {}


def is_shape(value):
    return isinstance(value, list) and all(isinstance(size, int) and not isinstance(size, bool) for size in value)


class Inputs:
    """Turns a case's plain data into the operator's arguments."""

    def __init__(self, case, seed):
        self.case = case
        self.seed = seed
        self.numpy = case["operator"].split(".")[0] in NUMPY_ROOTS
        self.context = make_context(case["context"])
        self.types = argument_types(case["operator"])
        self.tensors = {}

    def arguments(self):
        """``(args, kwargs)`` for the operator's Python function."""
        args, kwargs = [], {}
        for name, value in self.case["inputs"].items():
            if name == "args":  # a variadic operator's tensors
                args = [self.value(f"args{i}", item, True) for i, item in enumerate(value)]
            else:
                kwargs[name] = self.value(name, value, self.takes_tensor(name))
        return args, kwargs

    def takes_tensor(self, name):
        if name in self.types:
            return self.types[name].startswith(("NDArray", "Symbol"))
        # Python wrappers (nd.add, nd.random.normal) have no registered types.
        return name not in ("shape", "axis", "axes", "size", "scale", "loc", "low", "high")

    def value(self, name, value, takes_tensor):
        if isinstance(value, dict) and "value" in value:
            return as_attribute(value["value"])
        if isinstance(value, dict):
            return self.tensor(name, **value)
        if takes_tensor and is_shape(value):
            return self.tensor(name, value)
        if takes_tensor and isinstance(value, list):
            return [self.value(f"{name}{i}", item, True) for i, item in enumerate(value)]
        return as_attribute(value)

    def tensor(self, name, shape, dtype=None, init=None, low=None, high=None):
        """A tensor whose values depend on the seed, the case and the argument's name alone."""
        dtype = dtype or self.case["dtype"]
        key = f"{self.seed}|{self.case['id']}|{name}"
        random = numpy.random.RandomState(zlib.crc32(key.encode("utf-8")) & 0xFFFFFFFF)
        array = make_array(random, tuple(shape), dtype, init, low, high)
        module = mx.np if self.numpy else mx.nd
        tensor = module.array(array, dtype=dtype, ctx=self.context)
        self.tensors[name] = tensor
        return tensor

    def differentiable(self):
        """The tensors that gradients are asked of: floating point, and no states."""
        return [
            tensor
            for name, tensor in self.tensors.items()
            if numpy.dtype(tensor.dtype).kind == "f" and not AUXILIARY.match(name)
        ]


def as_attribute(value):
    return tuple(as_attribute(item) for item in value) if isinstance(value, list) else value


def make_context(text):
    kind, _, index = text.rstrip(")").partition("(")
    return mx.Context(kind, int(index or 0))


def make_array(random, shape, dtype, init, low, high):
    """A numpy array of ``shape``; floats are standard normal, integers uniform in [low, high) unless told."""
    floating = numpy.dtype(dtype).kind == "f"
    init = init or ("normal" if floating else "randint")
    if init == "normal":
        array = random.normal(size=shape)
    elif init == "uniform":
        array = random.uniform(0.0 if low is None else low, 1.0 if high is None else high, size=shape)
    elif init == "randint":
        top = (2 if numpy.dtype(dtype).kind == "b" else 10) if high is None else high
        array = random.randint(0 if low is None else low, top, size=shape)
    elif init == "arange":
        array = numpy.arange(int(numpy.prod(shape))).reshape(shape)
    elif init == "positive_definite":
        root = random.normal(size=shape)
        array = numpy.eye(shape[-1]) + numpy.matmul(root, numpy.swapaxes(root, -1, -2)) / shape[-1]
    elif init in ("zeros", "ones"):
        array = getattr(numpy, init)(shape)
    else:
        raise ValueError(f"init {init!r} is not known")
    return numpy.asarray(array).astype(dtype)


class AddOne(mx.operator.CustomOp):
    """What nd.Custom runs: an operator written in Python, so that it is the way there and back that is measured."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("opduel_add_one")
class AddOneProperties(mx.operator.CustomOpProp):
    def __init__(self):
        super(AddOneProperties, self).__init__(need_top_grad=True)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return AddOne()


def outputs_of(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def wait_for(results):
    """Block until MXNet's asynchronous engine has finished these."""
    for result in results:
        if hasattr(result, "wait_to_read"):
            result.wait_to_read()
        else:
            mx.nd.waitall()


def make_call(case, seed):
    """A function of no arguments that runs the case once, and returns when it is done.

    Raises MissingOperator; MXNetError and others as the operator does.
    """
    operator = resolve(case["operator"])
    inputs = Inputs(case, seed)
    if hasattr(mx, "npx"):  # the case before this one may have been of the other kind
        (mx.npx.set_np if inputs.numpy else mx.npx.reset_np)()
    args, kwargs = inputs.arguments()
    mx.nd.waitall()
    if case["direction"] == "forward":
        return forward_call(operator, args, kwargs)
    tensors = inputs.differentiable()
    for tensor in tensors:
        tensor.attach_grad()
    make = {"backward": backward_call, "both": both_call}[case["direction"]]
    return make(operator, args, kwargs, [tensor.grad for tensor in tensors])


def forward_call(operator, args, kwargs):
    def call():
        result = operator(*args, **kwargs)
        try:
            result.wait_to_read()
        except AttributeError:  # several outputs, or a plain number
            wait_for(outputs_of(result))

    return call


def backward_call(operator, args, kwargs, gradients):
    """Backward alone: the graph is recorded once and kept."""
    with mx.autograd.record():
        heads = outputs_of(operator(*args, **kwargs))
    mx.nd.waitall()

    def call():
        mx.autograd.backward(heads, retain_graph=True)
        for gradient in gradients:
            gradient.wait_to_read()

    return call


def both_call(operator, args, kwargs, gradients):
    """Record forward, then backward, as in training."""

    def call():
        with mx.autograd.record():
            heads = outputs_of(operator(*args, **kwargs))
        mx.autograd.backward(heads)
        for gradient in gradients:
            gradient.wait_to_read()

    return call
