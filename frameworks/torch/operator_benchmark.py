"""PyTorch's own operator benchmarks as tests of a spec: run by path in a build's interpreter. Standard library, NumPy
and PyTorch, Python 3.6 syntax.

The arguments are a checkout's folder ``benchmarks/operator_benchmark``, and tags, such as ``short``.  The benchmarks
are code, and are executed: of each configuration the inputs are made, ``forward`` is called once, and the one function
of PyTorch that it calls becomes a test, with the arguments that it got.  The checkout's own ``benchmark_utils.py``
makes the configurations; the rest of its harness is replaced by ``Suite``.

Prints one JSON document on stdout, whatever the benchmarks print:
    {"tests": [test of a spec, ...], "files": {name: {"cases": int, "left_out": {reason: count}}}}
"""

import importlib.util
import json
import math
import os
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, whose modules hide the build's

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from opduel_common.scripts import answer

ARE_LOOKED_AT = (
    "__get__",
    "size",
    "dim",
    "numel",
    "stride",
    "is_contiguous",
)  # by benchmarks and modules, all the time
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")
MOST_IDENTIFIER = 90
FEW = 128  # whole numbers that are written out


class Unsuitable(Exception):
    """Why a benchmark is no test of a spec."""


class Base(torch.nn.Module):
    """What a benchmark derives from: ``op_bench.TorchBenchmarkBase``."""

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
    """Notes the functions of PyTorch that are called, but not those that these call."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        if getattr(function, "__name__", "") not in ARE_LOOKED_AT:
            self.calls.append((function, list(args), dict(kwargs or {})))
        return function(*args, **(kwargs or {}))


class Suite:
    """``operator_benchmark`` as the files import it: what they register becomes tests."""

    def __init__(self, utils, tags):
        self.tags = tags
        self.tests = {}  # identifier -> test
        self.cases = 0  # of the present file
        self.left_out = {}
        module = types.ModuleType("operator_benchmark")
        vars(module).update({name: one for name, one in vars(utils).items() if not name.startswith("_")})
        module.TorchBenchmarkBase = Base
        module.generate_pt_test = lambda configs, kind: self.register(configs, kind, "forward")
        module.generate_pt_gradient_test = lambda configs, kind: self.register(configs, kind, "backward")
        module.generate_pt_tests_from_op_list = lambda ops, configs, kind: self.each(ops, configs, kind, "forward")
        module.generate_pt_gradient_tests_from_op_list = lambda ops, configs, kind: self.each(
            ops, configs, kind, "backward"
        )
        module.benchmark_runner = types.SimpleNamespace(main=lambda: None)
        self.module = module

    def each(self, ops, configs, kind, direction):
        for op in ops:
            self.register(configs, kind, direction, op)

    def register(self, configs, kind, direction, op=None):
        for config in configs:
            given = {}
            for part in config:
                given.update(part)
            tags = given.pop("tags", "")
            if not set(re.split("[_,]", str(tags))) & set(self.tags) and "all" not in self.tags:
                continue
            if given.get("device", "cpu") != "cpu":  # the same once more
                continue
            try:
                self.add(test_of(kind, dict(given), direction, op), direction)
            except Exception as error:  # whatever a benchmark raises
                reason = str(error).strip().split("\n")[0] if isinstance(error, Unsuitable) else described(error)
                self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def add(self, test, direction):
        """A test, or one more direction of the same one."""
        name, number = test["identifier"], 1
        while name in self.tests:
            known = self.tests[name]
            if known["operator"] == test["operator"] and shapes(known["inputs"]) == shapes(test["inputs"]):
                if direction in known["directions"]:
                    return
                known["directions"].append(direction)
                known["inputs"] = test["inputs"] if direction == "backward" else known["inputs"]
                self.cases += 1
                return
            number += 1
            name = "{}-{}".format(test["identifier"], number)
        self.tests[name] = dict(test, identifier=name)
        self.cases += 1


def shapes(inputs):
    """Inputs without what is only said of gradients, and values' ranges, which are drawn."""
    text = json.dumps(inputs, sort_keys=True)
    return re.sub(r'"(grad_req|low|high|init)": ("[a-z]*"|[-0-9.e]+),? ?', "", text)


def described(error):
    return "{}: {}".format(type(error).__name__, (str(error).strip() or "no reason given").split("\n")[0][:150])


def test_of(kind, given, direction, op):
    """The test of one configuration. Raises Unsuitable; whatever the benchmark raises."""
    benchmark = kind()
    benchmark.wants_gradients = direction == "backward"
    words = dict(given)
    if op is not None:
        given["op_func"] = op["op_func"]
        benchmark.set_module_name(op["op_name"])
    benchmark.init(**given)
    inputs = getattr(benchmark, "inputs", None)
    if not isinstance(inputs, dict):
        raise Unsuitable("has no inputs by name")
    before = [plain(one, direction) if isinstance(one, torch.Tensor) else None for one in inputs.values()]
    with Recorder() as recorder:
        benchmark.forward(*inputs.values())
    if len(recorder.calls) != 1:
        raise Unsuitable("calls {} functions of PyTorch, not one".format(len(recorder.calls)))
    function, args, kwargs = recorder.calls[0]
    known = {id(one): done for one, done in zip(inputs.values(), before) if done is not None}  # as before the call
    name = name_of(function)
    arguments = {key: plain(value, direction, known) for key, value in kwargs.items()}
    if name.startswith("torch.Tensor."):
        arguments["self"] = plain(args.pop(0), direction, known)
    if args:
        arguments["args"] = [placed(plain(value, direction, known)) for value in args]
    identifier = "_".join(
        [benchmark.module_name(), *("{}{}".format(*one) for one in words.items() if one[0] != "device")]
    )
    identifier = re.sub(r"[^A-Za-z0-9_.+=,@-]+", "-", identifier.replace("torch.", "")).strip("-_.")[:MOST_IDENTIFIER]
    return {"operator": name, "identifier": identifier, "directions": [direction], "inputs": arguments}


def name_of(function):
    """The dotted name by which a spec can name a function. Raises Unsuitable."""
    name = "torch.ops." + str(function) if is_registered(function) else resolve_name(function)
    found = None
    if name and name.startswith("torch."):
        found = torch
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)
    if not callable(found):
        raise Unsuitable("{} has no public name".format(getattr(function, "__name__", function)))
    return name


def is_registered(function):
    """Whether it is an operator of ``torch.ops``."""
    return type(function).__module__ == "torch._ops"


def placed(value):
    """A value as it stands in a spec's ``args``."""
    if isinstance(value, list):
        return {"tuple": value}
    return value if isinstance(value, dict) else {"value": value}


def plain(value, direction, known=None):
    """An argument as a spec has it. Raises Unsuitable."""
    if known and id(value) in known:
        return known[id(value)]
    if isinstance(value, torch.Tensor):
        return tensor(value, direction)
    if isinstance(value, float) and not math.isfinite(value):  # which JSON has not
        return {"call": "builtins.float", "args": [{"value": str(value)}]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return {"value": str(value)}
    if isinstance(value, torch.device):
        return {"context": "cpu"}
    if isinstance(value, (list, tuple)) and all(isinstance(one, (bool, int, float)) for one in value):
        return {"value": list(value)}
    if isinstance(value, (list, tuple)) and all(isinstance(one, torch.Tensor) for one in value):
        made = [plain(one, direction, known) for one in value]
        return {"tuple": made} if isinstance(value, tuple) else made
    raise Unsuitable("an argument is a {}".format(type(value).__name__))


def tensor(value, direction):
    """A tensor by its shape, dtype and kind of values; one with strides of its own as a view."""
    dtype = str(value.dtype).partition(".")[2]
    if value.is_quantized:
        raise Unsuitable("an argument is a quantized tensor")
    if value.layout != torch.strided or dtype not in DTYPES:
        raise Unsuitable("an argument is a tensor of {} {}".format(value.layout, value.dtype))
    if not value.dtype.is_floating_point and value.numel() <= FEW:  # offsets and indices: their values matter
        return {
            "call": "torch.tensor",
            "args": [{"value": value.tolist()}],
            "kwargs": {"dtype": {"value": str(value.dtype)}},
        }
    if value.is_contiguous():
        return of_shape(value, list(value.shape), dtype, direction)
    if direction == "backward":
        raise Unsuitable("it asks for the gradient of a tensor with custom strides")
    length = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
    flat = of_shape(value, [length], dtype, direction)
    return {"call": "torch.as_strided", "args": [flat, {"value": list(value.shape)}, {"value": list(value.stride())}]}


def of_shape(value, shape, dtype, direction):
    found = {"shape": shape, "dtype": dtype}
    if value.numel() and dtype != "bool":
        numbers = value.detach().to(torch.float64)
        low, high = numbers.min().item(), numbers.max().item()
        if not value.dtype.is_floating_point:
            found.update(init="randint", low=int(low), high=int(high) + 1)
        elif low == high and low in (0.0, 1.0):
            found.update(init="ones" if low else "zeros")
        elif low >= 0 and high <= 1:
            found.update(init="uniform", low=0.0, high=1.0)
        elif low >= 0:
            found.update(init="uniform", low=0.0, high=float(round(high) or 1))
    if direction == "backward" and value.dtype.is_floating_point and not value.requires_grad:
        found["grad_req"] = "null"
    return found


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def document(folder, tags):
    sys.path.insert(0, folder)  # for ``from pt import configs``
    utils = load(os.path.join(folder, "benchmark_utils.py"), "benchmark_utils")
    suite = Suite(utils, tags)
    sys.modules["operator_benchmark"] = suite.module
    files = {}
    for name in sorted(os.listdir(os.path.join(folder, "pt"))):
        if not name.endswith("_test.py"):
            continue
        suite.cases, suite.left_out = 0, {}
        torch.manual_seed(0)
        try:
            load(os.path.join(folder, "pt", name), "pt." + name[: -len(".py")])
        except Exception as error:  # whatever a file raises
            suite.left_out[described(error)] = 1
        files[name] = {"cases": suite.cases, "left_out": suite.left_out}
    return {"tests": list(suite.tests.values()), "files": files}


if __name__ == "__main__":
    answer(document, sys.argv[1], sys.argv[2:] or ["short"])
