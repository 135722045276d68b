"""Turn PyTorch's own operator benchmarks into tests of a spec: run by path in a build's interpreter. Standard library,
NumPy and PyTorch, Python 3.6 syntax.

The arguments are a checkout's folder ``benchmarks/operator_benchmark``, and tags such as ``short``.  The benchmarks'
code is executed: for each configuration the inputs are made, ``forward`` is called once, and the only function of
PyTorch that it calls becomes a test with the same arguments.  The checkout's own ``benchmark_utils.py`` makes the
configurations; ``Suite`` replaces the rest of its harness.

Prints one JSON document on stdout:
    {"tests": [test of a spec, ...], "files": {name: {"cases": int, "left_out": {reason: count}}}}
"""

import functools
import itertools
import json
import math
import os
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, which would hide modules

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from opduel_common.scripts import answer, load_module

# Functions that benchmarks and modules call beside the one that they measure.
INSPECTIONS = ("__get__", "size", "dim", "numel", "stride", "is_contiguous")
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")
LONGEST_IDENTIFIER = 90
MAX_WRITTEN_OUT = 128  # integers


class Unsuitable(Exception):
    """A benchmark can't be a test of a spec; the text says why."""


class Base(torch.nn.Module):
    """The base class of benchmarks, in place of ``op_bench.TorchBenchmarkBase``."""

    def __init__(self):
        super().__init__()
        self.name = type(self).__name__
        self.wants_gradients = False

    def auto_set(self):
        return self.wants_gradients

    def set_module_name(self, name):
        self.name = name

    def module_name(self):
        return self.name


class Recorder(TorchFunctionMode):
    """Record the functions of PyTorch that are called, but not those that these call."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        if getattr(function, "__name__", "") not in INSPECTIONS:
            self.calls.append((function, list(args), dict(kwargs or {})))
        return function(*args, **(kwargs or {}))


class Suite:
    """A replacement of the module ``operator_benchmark``: what the files register becomes tests."""

    def __init__(self, utils, tags):
        self.tags = tags
        self.tests = {}  # identifier -> test
        self.cases = 0  # of the current file
        self.left_out = {}
        module = types.ModuleType("operator_benchmark")
        vars(module).update({name: member for name, member in vars(utils).items() if not name.startswith("_")})
        module.TorchBenchmarkBase = Base
        for name, direction in (("test", "forward"), ("gradient_test", "backward")):
            setattr(module, f"generate_pt_{name}", functools.partial(self.register, [None], direction=direction))
            setattr(module, f"generate_pt_{name}s_from_op_list", functools.partial(self.register, direction=direction))
        module.benchmark_runner = types.SimpleNamespace(main=lambda: None)
        self.module = module

    def register(self, ops, configs, kind, direction):
        """Make tests of all configurations that have one of the tags, each for every operator; None: it has its own."""
        for op, config in itertools.product(ops, list(configs)):
            settings = {}
            for part in config:
                settings.update(part)
            tags = settings.pop("tags", "")
            if not set(re.split("[_,]", str(tags))) & set(self.tags) and "all" not in self.tags:
                continue
            if settings.get("device", "cpu") != "cpu":  # the same test on another device
                continue
            try:
                self.add(make_test(kind, settings, direction, op), direction)
            except Exception as error:  # a benchmark may raise anything
                reason = str(error).strip().split("\n")[0] if isinstance(error, Unsuitable) else text_of_error(error)
                self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def add(self, test, direction):
        """Add a test, or one more direction of the same one."""
        name, number = test["identifier"], 1
        while name in self.tests:
            registered = self.tests[name]
            if registered["operator"] == test["operator"] and shapes(registered["inputs"]) == shapes(test["inputs"]):
                if direction in registered["directions"]:
                    return
                registered["directions"].append(direction)
                registered["inputs"] = test["inputs"] if direction == "backward" else registered["inputs"]
                self.cases += 1
                return
            number += 1
            name = "{}-{}".format(test["identifier"], number)
        self.tests[name] = dict(test, identifier=name)
        self.cases += 1


def shapes(inputs):
    """Return inputs as text, without gradients and ranges of values."""
    text = json.dumps(inputs, sort_keys=True)
    return re.sub(r'"(grad_req|low|high|init)": ("[a-z]*"|[-0-9.e]+),? ?', "", text)


def text_of_error(error):
    return "{}: {}".format(type(error).__name__, (str(error).strip() or "no reason given").split("\n")[0][:150])


def make_test(kind, settings, direction, op):
    """Return the test of one configuration. Raise Unsuitable, and whatever the benchmark raises."""
    benchmark = kind()
    benchmark.wants_gradients = direction == "backward"
    own = {}
    if op is not None:
        own["op_func"] = op["op_func"]
        benchmark.set_module_name(op["op_name"])
    benchmark.init(**settings, **own)
    inputs = getattr(benchmark, "inputs", None)
    if not isinstance(inputs, dict):
        raise Unsuitable("has no inputs by name")
    tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
    argument_by_id = {id(value): as_argument(value, direction) for value in tensors}  # before the call changes them
    with Recorder() as recorder:
        benchmark.forward(*inputs.values())
    if len(recorder.calls) != 1:
        raise Unsuitable(f"calls {len(recorder.calls)} functions of PyTorch, not one")
    function, args, kwargs = recorder.calls[0]
    name = name_of(function)
    arguments = {key: as_argument(value, direction, argument_by_id) for key, value in kwargs.items()}
    if name.startswith("torch.Tensor."):
        arguments["self"] = as_argument(args.pop(0), direction, argument_by_id)
    if args:
        arguments["args"] = [as_positional(as_argument(value, direction, argument_by_id)) for value in args]
    words = [benchmark.module_name(), *(f"{key}{value}" for key, value in settings.items() if key != "device")]
    identifier = re.sub(r"[^A-Za-z0-9_.+=,@-]+", "-", "_".join(words).replace("torch.", "")).strip("-_.")
    identifier = identifier[:LONGEST_IDENTIFIER]
    return {"operator": name, "identifier": identifier, "directions": [direction], "inputs": arguments}


def name_of(function):
    """Return a function's dotted name for a spec. Raise Unsuitable if it has none."""
    is_registered = type(function).__module__ == "torch._ops"  # an operator of torch.ops
    name = "torch.ops." + str(function) if is_registered else resolve_name(function)
    member = None
    if name and name.startswith("torch."):
        member = torch
        for part in name.split(".")[1:]:
            member = getattr(member, part, None)
    if not callable(member):
        raise Unsuitable("{} has no public name".format(getattr(function, "__name__", function)))
    return name


def as_positional(value):
    """Return a value as it is written in a spec's ``args``."""
    if isinstance(value, list):
        return {"tuple": value}
    return value if isinstance(value, dict) else {"value": value}


def as_argument(value, direction, argument_by_id=None):
    """Return an argument as it is written in a spec. Raise Unsuitable."""
    if argument_by_id and id(value) in argument_by_id:
        return argument_by_id[id(value)]
    if isinstance(value, torch.Tensor):
        return tensor(value, direction)
    if isinstance(value, float) and not math.isfinite(value):  # which JSON can't express
        return {"call": "builtins.float", "args": [{"value": str(value)}]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return {"value": str(value)}
    if isinstance(value, torch.device):
        return {"context": "cpu"}
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bool, int, float)) for item in value):
        return {"value": list(value)}
    if isinstance(value, (list, tuple)) and all(isinstance(item, torch.Tensor) for item in value):
        arguments = [as_argument(item, direction, argument_by_id) for item in value]
        return {"tuple": arguments} if isinstance(value, tuple) else arguments
    raise Unsuitable(f"an argument is a {type(value).__name__}")


def tensor(value, direction):
    """Describe a tensor by shape, dtype and kind of values; one with custom strides as a view."""
    dtype = str(value.dtype).partition(".")[2]
    if value.is_quantized:
        raise Unsuitable("an argument is a quantized tensor")
    if value.layout != torch.strided or dtype not in DTYPES:
        raise Unsuitable(f"an argument is a tensor of {value.layout} {value.dtype}")
    if not value.dtype.is_floating_point and value.numel() <= MAX_WRITTEN_OUT:  # such as indices
        kwargs = {"dtype": {"value": str(value.dtype)}}
        return {"call": "torch.tensor", "args": [{"value": value.tolist()}], "kwargs": kwargs}
    if value.is_contiguous():
        return describe_tensor(value, list(value.shape), dtype, direction)
    if direction == "backward":
        raise Unsuitable("it asks for the gradient of a tensor with custom strides")
    length = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
    flat = describe_tensor(value, [length], dtype, direction)
    return {"call": "torch.as_strided", "args": [flat, {"value": list(value.shape)}, {"value": list(value.stride())}]}


def describe_tensor(value, shape, dtype, direction):
    description = {"shape": shape, "dtype": dtype}
    if value.numel() and dtype != "bool":
        numbers = value.detach().to(torch.float64)
        low, high = numbers.min().item(), numbers.max().item()
        if not value.dtype.is_floating_point:
            description.update(init="randint", low=int(low), high=int(high) + 1)
        elif low == high and low in (0.0, 1.0):
            description.update(init="ones" if low else "zeros")
        elif low >= 0 and high <= 1:
            description.update(init="uniform", low=0.0, high=1.0)
        elif low >= 0:
            description.update(init="uniform", low=0.0, high=float(round(high) or 1))
    if direction == "backward" and value.dtype.is_floating_point and not value.requires_grad:
        description["grad_req"] = "null"
    return description


def document(folder, tags):
    sys.path.insert(0, folder)  # for ``from pt import configs``
    utils = load_module("benchmark_utils", os.path.join(folder, "benchmark_utils.py"))
    suite = Suite(utils, tags)
    sys.modules["operator_benchmark"] = suite.module
    files = {}
    for name in sorted(os.listdir(os.path.join(folder, "pt"))):
        if not name.endswith("_test.py"):
            continue
        suite.cases, suite.left_out = 0, {}
        torch.manual_seed(0)
        try:
            load_module("pt." + name[: -len(".py")], os.path.join(folder, "pt", name))
        except Exception as error:  # a file may raise anything
            suite.left_out[text_of_error(error)] = 1
        files[name] = {"cases": suite.cases, "left_out": suite.left_out}
    return {"tests": list(suite.tests.values()), "files": files}


if __name__ == "__main__":
    answer(document, sys.argv[1], sys.argv[2:] or ["short"])
