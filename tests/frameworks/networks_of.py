"""Run in a build: return what networks compute with the adaptor's weights, and what a training step does.

The question is a folder in which it saves a network, or finds a saved one.
"""

import os

import mxnet as mx
import numpy
from build_script import adaptor, answer_each

Network, training_step = adaptor.networks.Network, adaptor.networks.training_step


def save(folder):
    """Save a network with what saved ones are made of: convolution, moving averages and layers."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(8, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.ones((2, 3, 8, 8)))
    net.export(os.path.join(folder, "net"))


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


def outputs_by_name(folder):
    symbol = os.path.join(folder, "net-symbol.json")
    if not os.path.exists(symbol):
        save(folder)
    networks = {
        name: network("model_zoo." + name, data=[2, 3, size, size], classes=7)
        for name, size in (("resnet18_v1", 32), ("mobilenet0_25", 32), ("squeezenet1_1", 224))
    }
    with_weights = {"symbol": symbol, "params": os.path.join(folder, "net-0000.params")}
    for name, files in (("saved", with_weights), ("symbol alone", {"symbol": symbol})):
        networks[name] = network("saved.net", files, data=[2, 3, 8, 8])
    return {name: outputs(net) for name, net in networks.items()}


def answer(folder):
    results = {"outputs": outputs_by_name(folder)}
    net = network("model_zoo.mobilenet0_25", data=[16, 3, 64, 64], classes=7)
    adaptor.networks.LEARNING_RATE = 0.02
    step = training_step(net)
    before, loss_before = parameters(net), loss(net)
    for _ in range(5):
        step()
    changed = sum(bool(numpy.any(old != new)) for old, new in zip(before, parameters(net), strict=True))
    return dict(results, changed=changed, parameters=len(before), loss=[loss_before, loss(net)])


answer_each(answer)
