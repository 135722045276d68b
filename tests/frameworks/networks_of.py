"""Run in a build: print what networks compute with the adaptor's weights, and what a training step does.

The arguments are the adaptor's folder, and one in which it saves a network, or finds a saved one.
"""

import json
import os
import sys

import mxnet as mx
import numpy

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor
from adaptor.networks import Network, training_step

FOLDER = sys.argv[2]
SYMBOL, PARAMS = os.path.join(FOLDER, "net-symbol.json"), os.path.join(FOLDER, "net-0000.params")


def save():
    """A network with what saved ones are made of: convolution, moving averages, several outputs' worth of layers."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(8, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.ones((2, 3, 8, 8)))
    net.export(os.path.join(FOLDER, "net"))


def network(operator, files=None, **inputs):
    case = {"id": "a", "operator": operator, "direction": "both", "inputs": inputs, "dtype": "float32"}
    case.update({"context": "cpu", "files": files or {}})
    return Network(case, 3)


def parameters(net):
    values = {
        name: parameter.data().asnumpy()
        for name, parameter in net.block.collect_params().items()
        if parameter.grad_req != "null"
    }
    return [values[name] for name in sorted(values)]


def outputs(net):
    return [float(value) for value in net.outputs()[0].asnumpy().ravel()[:8]]


def loss(net):
    with mx.autograd.train_mode():  # with the batch's own mean and variance, as in the step
        return float(net.loss().mean().asnumpy())


if not os.path.exists(SYMBOL):
    save()
answer = {"outputs": {}}
for name, size in (("resnet18_v1", 32), ("mobilenet0_25", 32), ("squeezenet1_1", 224)):
    answer["outputs"][name] = outputs(network("model_zoo." + name, data=[2, 3, size, size], classes=7))
files = {"symbol": SYMBOL, "params": PARAMS}
answer["outputs"]["saved"] = outputs(network("saved.net", files, data=[2, 3, 8, 8]))
answer["outputs"]["symbol alone"] = outputs(network("saved.net", {"symbol": SYMBOL}, data=[2, 3, 8, 8]))

net = network("model_zoo.mobilenet0_25", data=[16, 3, 64, 64], classes=7)
adaptor.networks.LEARNING_RATE = 0.02
step = training_step(net)
before = parameters(net)
answer["loss"] = [loss(net)]
for _ in range(5):
    step()
after = parameters(net)
answer["changed"] = sum(bool(numpy.any(before[place] != after[place])) for place in range(len(before)))
answer["parameters"] = len(before)
answer["loss"].append(loss(net))
json.dump(answer, sys.stdout)
sys.stdout.flush()
os._exit(0)
