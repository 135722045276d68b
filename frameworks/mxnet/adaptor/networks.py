"""Run whole networks, of Gluon's model zoo, saved ones, or a user's own block: inference, or a training step.

A network is hybridized with static memory and shapes unless its case has ``hybridize: false``. Weights depend on the
seed, the case, and their names within the network alone, so that builds of other releases get the same.
"""

import os
import sys
import types

import mxnet as mx
import numpy

from opduel_common.names import constructor_names
from opduel_common.scripts import load_module
from opduel_common.values import MOST_DRAWN

from .blocks import argument, is_block_class
from .calls import backward_call, forward_call, outputs_of
from .inputs import Inputs, as_attribute
from .operators import MissingOperator

ROOTS = ("model_zoo", "saved", "block")
MODULE = "opduel_block"  # the module name of a user's file
LOSSES = ("softmax_cross_entropy", "sum")
# A step this small does all the work of any other, but hardly changes the weights in a thousand calls.
LEARNING_RATE = 1e-8

FORBIDDEN = ("pretrained", "root", "ctx", "params", "prefix")
CONSTANTS = {"gamma": 1, "running_var": 1, "moving_var": 1}
CONSTANTS.update({"beta": 0, "bias": 0, "running_mean": 0, "moving_mean": 0})


def is_network(operator):
    return operator.split(".")[0] in ROOTS


def make_network_call(case, seed):
    """Return a function that runs the network once, and returns when all is done."""
    network = Network(case, seed)
    if case["direction"] == "both":
        return training_step(network)
    network.set_mode(static=case["direction"] == "forward")  # with static memory a graph can be used only once
    if case["direction"] == "forward":
        return forward_call(network.block, network.tensors, {})
    return backward_call(network.loss, [], {}, [])


class Network:
    """A network with its weights, its input tensors and, for training, its loss."""

    def __init__(self, case, seed):
        self.inputs = Inputs(case, seed)
        root, _, name = case["operator"].partition(".")
        self.saved = root == "saved"
        values = dict(case["inputs"])
        self.hybridize = values.pop("hybridize", True)
        self.loss_name = values.pop("loss", "softmax_cross_entropy" if root == "model_zoo" else "sum")
        if self.loss_name not in LOSSES:
            raise ValueError(f"loss {self.loss_name!r} is not known: use {' or '.join(LOSSES)}")
        if self.saved:
            names = list(values)
        elif root == "block":
            kind = block_class(case["files"]["module"], name)
            names = tensors_of_call(kind, values)
        elif "data" in values:
            names = ["data"]
        else:
            raise ValueError("inputs need data, the shape of the network's input")
        self.tensors = [self.tensor(tensor_name, values.pop(tensor_name)) for tensor_name in names]
        if self.saved:
            symbol, params = case["files"]["symbol"], case["files"].get("params")
            check_inputs(symbol, params, names)
            self.block = mx.gluon.SymbolBlock.imports(symbol, names, params, ctx=self.inputs.context)
        elif root == "block":
            self.block = kind(**{key: argument(value) for key, value in values.items()})
        else:
            self.block = zoo_network(name, values)
        if case["dtype"] != "float32":
            self.block.cast(case["dtype"])
        if not (self.saved and "params" in case["files"]):
            self.draw_weights()
        for parameter_name, parameter in self.block.collect_params().items():
            if parameter.grad_req != "null":
                self.inputs.parameters[self.own_name(parameter_name)] = parameter
        self.labels = None

    def tensor(self, name, value):
        if not isinstance(value, (dict, list)):
            raise ValueError(f"{name} is {value!r}: give the shape of a tensor")
        return self.inputs.array(name, value if isinstance(value, dict) else {"shape": value})

    def own_name(self, name):
        """Return a parameter's name without the network's prefix, which MXNet counts up."""
        return name[len(self.block.prefix) :] if name.startswith(self.block.prefix) else name

    def draw_weights(self):
        """Set the parameters' values; if their shapes can't be inferred, after a first call, which sets them."""
        self.block.initialize(mx.init.Zero(), ctx=self.inputs.context)
        mx.nd.waitall()
        shapes_are_known = self.can_infer_shapes()
        if not shapes_are_known:
            self.block(*self.tensors)
        for name, parameter in self.block.collect_params().items():
            if isinstance(parameter, mx.gluon.Constant):
                continue  # part of what is computed
            own = self.own_name(name)
            values = weights(self.inputs.random(own), own, parameter.shape)
            parameter.set_data(mx.nd.array(values, ctx=self.inputs.context, dtype=parameter.dtype))
        if shapes_are_known:
            self.block(*self.tensors)
        mx.nd.waitall()

    def can_infer_shapes(self):
        """Infer the parameters' shapes, and return whether that was possible.

        A call would do it, too, but would first fill the parameters with zeros, for seconds in a large network.
        """
        try:
            self.block.infer_shape(*self.tensors)
        except Exception:  # any kind: the block isn't a graph
            return False
        return all(parameter.shape and min(parameter.shape) > 0 for parameter in self.block.collect_params().values())

    def set_mode(self, static=True):
        if self.hybridize:
            self.block.hybridize(static_alloc=static, static_shape=static)
        elif self.saved:  # always a graph: run one operator a time, in memory of its own
            self.block.hybridize(forward_bulk_size=0, backward_bulk_size=0)

    def outputs(self):
        return outputs_of(self.block(*self.tensors))

    def loss(self):
        """Return the loss: a number for each example, or for all."""
        outputs = self.outputs()
        if self.loss_name == "sum":
            sums = [output.sum() for output in outputs]
            return sums[0] if len(sums) == 1 else mx.nd.add_n(*sums)
        if self.labels is None:
            examples, classes = outputs[0].shape[:2]
            labels = self.inputs.random("labels").randint(0, classes, size=(examples,))
            self.labels = mx.nd.array(labels, ctx=self.inputs.context)
            self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        return self.cross_entropy(outputs[0], self.labels)


def zoo_network(name, attributes):
    """Return a network of the model zoo; ``attributes`` are its constructor's."""
    name = name.split(".")[-1]
    make = getattr(mx.gluon.model_zoo.vision, name, None)
    if not isinstance(make, types.FunctionType) or name.startswith("get_"):
        raise MissingOperator(f"mxnet {mx.__version__} has no network {name} in its model zoo")
    for attribute in FORBIDDEN:
        if attribute in attributes:
            raise ValueError(f"{attribute} is not accepted: weights come from the seed")
    return make(**{key: as_attribute(value) for key, value in attributes.items()})


def block_class(path, name):
    """Execute a Python file and return its Gluon block ``name``. Raise MissingOperator, and what the file raises."""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        module = load_module(MODULE, path)
    finally:
        sys.dont_write_bytecode = writes
    kind = getattr(module, name, None)
    if not is_block_class(kind):
        there = [key for key, value in vars(module).items() if is_block_class(value) and value.__module__ == MODULE]
        existing = "its blocks are " + ", ".join(there) if there else "it has no block"
        raise MissingOperator(f"{os.path.basename(path)} has no Gluon block {name}: {existing}")
    return kind


def tensors_of_call(kind, values):
    """Return in order the names of the tensors of a block's call: the inputs that its constructor doesn't take."""
    made_of = constructor_names(kind)
    names = [name for name in values if name not in made_of]
    if not names:
        raise ValueError(f'{kind.__name__} is given no tensor: name one, as in "data": [1, 3, 224, 224]')
    return names


def check_inputs(symbol, params, tensors):
    """Raise ValueError for an input that a saved network doesn't have, or that is missing and not a saved weight."""
    symbol = mx.sym.load(symbol)
    names = symbol.list_inputs()
    if params is None:
        weights_too = set(symbol.list_auxiliary_states())
        weight_suffixes = ("weight", "bias", "gamma", "beta", "mean", "var", "alpha", "parameters", "state")
        inputs = [name for name in names if name not in weights_too and not name.endswith(weight_suffixes)]
    else:
        saved = {name.split(":", 1)[-1] for name in mx.nd.load(params)}
        inputs = [name for name in names if name not in saved]
    for name in tensors:
        if name not in names:
            raise ValueError(f"the network has no input {name}: its inputs are {', '.join(inputs) or 'none'}")
    missing = [name for name in inputs if name not in tensors] if params is not None else []
    if missing:
        raise ValueError(f"the network needs {', '.join(missing)}, too: give its shape in inputs")


def weights(random, name, shape):
    """Return values with which signals neither fade nor grow (He et al. 2015): uniform, with variance 2 / fan-in.

    A large parameter repeats MOST_DRAWN values.
    """
    for suffix, constant in CONSTANTS.items():
        if name.endswith(suffix):
            return numpy.full(shape, constant, dtype="float32")
    bound = numpy.sqrt(6.0 / max(1, int(numpy.prod(shape[1:]))))
    drawn = (2 * bound) * random.random_sample(min(int(numpy.prod(shape)), MOST_DRAWN)) - bound
    return numpy.resize(drawn.astype("float32"), shape)


def training_step(network):
    """Return a function for a training step: forward, loss, backward, and an update of all parameters (plain SGD)."""
    network.set_mode()
    sgd = {"learning_rate": LEARNING_RATE}
    trainer = mx.gluon.Trainer(network.block.collect_params(), "sgd", sgd, kvstore=None)
    batch = network.tensors[0].shape[0]

    def call():
        with mx.autograd.record():
            loss = network.loss()
        loss.backward()
        trainer.step(batch, ignore_stale_grad=True)
        mx.nd.waitall()

    return call
