"""Whole networks: of Gluon's model zoo with weights from the seed, or saved ones; inference, and a training step.

A network is hybridized with static memory and shapes unless its case says ``hybridize: false``. Weights depend on the
seed, the case, and their names within the network alone: builds of other releases get the same ones.
"""

import types

import mxnet as mx
import numpy

from .inputs import Inputs, as_attribute
from .operators import MissingOperator

ROOTS = ("model_zoo", "saved")
LOSSES = ("softmax_cross_entropy", "sum")
# A step this small does all the work of any other, and leaves the thousandth call as good as the weights of the first.
LEARNING_RATE = 1e-8
OURS = ("hybridize", "loss")  # inputs that are neither tensors nor the constructor's
FORBIDDEN = ("pretrained", "root", "ctx", "params", "prefix")
CONSTANTS = {"gamma": 1, "running_var": 1, "moving_var": 1}
CONSTANTS.update({"beta": 0, "bias": 0, "running_mean": 0, "moving_mean": 0})


def is_network(operator):
    return operator.split(".")[0] in ROOTS


def make_network_call(case, seed):
    """A function of no arguments that runs the network once, and returns when all is done."""
    network = Network(case, seed)
    return {"forward": inference, "backward": backward_alone, "both": training_step}[case["direction"]](network)


class Network:
    """A network with its weights, its input tensors and, for training, its loss."""

    def __init__(self, case, seed):
        self.case = case
        self.seed = seed
        self.inputs = inputs = Inputs(case, seed)
        self.context = inputs.context
        self.saved = case["operator"].split(".")[0] == "saved"
        values = dict(case["inputs"])
        self.hybridize = values.pop("hybridize", True)
        self.loss_name = values.pop("loss", "sum" if self.saved else "softmax_cross_entropy")
        if self.loss_name not in LOSSES:
            raise ValueError("loss {!r} is not known: use {}".format(self.loss_name, " or ".join(LOSSES)))
        self.tensors = [self.tensor(inputs, name, values) for name in self.tensor_names(values)]
        self.block = self.load(values) if self.saved else self.build(values)
        if case["dtype"] != "float32":
            self.block.cast(case["dtype"])
        if not (self.saved and "params" in case["files"]):
            self.draw_weights()
        for name, parameter in self.block.collect_params().items():
            if parameter.grad_req != "null":
                self.inputs.parameters[self.own_name(name)] = parameter
        self.labels = None

    def tensor_names(self, values):
        if self.saved:
            return list(values)
        if "data" not in values:
            raise ValueError("inputs need data, the shape of the network's input")
        return ["data"]

    def tensor(self, inputs, name, values):
        value = values[name] if self.saved else values.pop(name)
        if isinstance(value, dict):
            return inputs.tensor(name, **value)
        if not isinstance(value, list):
            raise ValueError("{} is {!r}: give the shape of a tensor".format(name, value))
        return inputs.tensor(name, value)

    def build(self, attributes):
        """A network of the model zoo; ``attributes`` are its constructor's."""
        zoo = mx.gluon.model_zoo.vision
        name = self.case["operator"].split(".")[-1]
        make = getattr(zoo, name, None)
        if not isinstance(make, types.FunctionType) or name.startswith("get_"):
            raise MissingOperator("mxnet {} has no network {} in its model zoo".format(mx.__version__, name))
        for attribute in FORBIDDEN:
            if attribute in attributes:
                raise ValueError("{} is not taken: weights come from the seed".format(attribute))
        return make(**{key: as_attribute(value) for key, value in attributes.items()})

    def load(self, tensors):
        files = self.case["files"]
        return mx.gluon.SymbolBlock.imports(files["symbol"], list(tensors), files.get("params"), ctx=self.context)

    def own_name(self, name):
        """A parameter's name within the network: the network's own is counted up from one to the next."""
        return name[len(self.block.prefix) :] if name.startswith(self.block.prefix) else name

    def draw_weights(self):
        """Give each parameter its values, once a call with zeros has settled the shapes."""
        self.block.initialize(mx.init.Zero(), ctx=self.context)
        mx.nd.waitall()
        self.block(*self.tensors)
        for name, parameter in self.block.collect_params().items():
            own = self.own_name(name)
            values = weights(self.inputs.random(own), own, parameter.shape)
            parameter.set_data(mx.nd.array(values, ctx=self.context, dtype=parameter.dtype))
        mx.nd.waitall()

    def settle(self, static=True):
        if self.hybridize:
            self.block.hybridize(static_alloc=static, static_shape=static)
        elif self.saved:  # there is no other form than a graph: it runs one operator a time, in memory of its own
            self.block.hybridize(forward_bulk_size=0, backward_bulk_size=0)

    def outputs(self):
        result = self.block(*self.tensors)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def loss(self):
        """One number for each example, or for all."""
        outputs = self.outputs()
        if self.loss_name == "sum":
            sums = [output.sum() for output in outputs]
            return sums[0] if len(sums) == 1 else mx.nd.add_n(*sums)
        if self.labels is None:
            self.labels = self.draw_labels(outputs[0].shape)
        return self.cross_entropy(outputs[0], self.labels)

    def draw_labels(self, shape):
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        return mx.nd.array(self.inputs.random("labels").randint(0, shape[1], size=shape[:1]), ctx=self.context)


def weights(random, name, shape):
    """Values with which signals neither fade nor grow (He et al. 2015): uniform, of variance 2 / fan-in."""
    for end, constant in CONSTANTS.items():
        if name.endswith(end):
            return numpy.full(shape, constant, dtype="float32")
    bound = numpy.sqrt(6.0 / max(1, int(numpy.prod(shape[1:]))))
    return ((2 * bound) * random.random_sample(shape) - bound).astype("float32")


def inference(network):
    network.settle()

    def call():
        for output in network.outputs():
            output.wait_to_read()

    return call


def backward_alone(network):
    """The graph is recorded once and kept: not with static memory, where a second backward would find it used up."""
    network.settle(static=False)
    with mx.autograd.record():
        loss = network.loss()
    mx.nd.waitall()

    def call():
        mx.autograd.backward([loss], retain_graph=True)
        mx.nd.waitall()

    return call


def training_step(network):
    """Forward in training mode, loss, backward, and an update of all parameters (plain SGD), waited for."""
    network.settle()
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
