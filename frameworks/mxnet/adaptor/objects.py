"""Metrics, initializers, optimizers, data loaders and iterators: a class is made first, then an object of it is used.

Of a case's inputs those in ``USES`` are tensors that it is used with; the others go to the constructor.
"""

import inspect

import mxnet as mx
import numpy

from .blocks import argument, constructor_parameters
from .operators import MissingOperator, dotted


def use_metric(metric, labels, preds):
    """Forget what was counted, count one batch, and read the metric."""

    def use():
        metric.reset()
        metric.update(labels, preds)
        return metric.get()[1]

    return use


def use_initializer(initializer, data):
    """Fill an array in place."""
    description = mx.init.InitDesc("weight")

    def use():
        initializer(description, data)
        return data

    return use


def use_optimizer(optimizer, weight, grad):
    """One step, in Python: state, schedule and the operators that it calls."""
    state = optimizer.create_state(0, weight)

    def use():
        optimizer.update(0, weight, grad, state)
        return [weight, *arrays_of(state)]

    return use


def use_iterator(iterator):
    """Every batch of the data once, from the beginning."""

    def use():
        iterator.reset()
        return [batch.data + batch.label for batch in iterator]

    return use


# Namespace -> what an object is used with, the base class of those that there are, and the names that can't be had:
# they wrap other objects, take a function, compute nothing, or read files.
USES = {
    "metric": (("labels", "preds"), mx.metric.EvalMetric, ("EvalMetric", "CustomMetric", "CompositeEvalMetric")),
    "init": (("data",), mx.init.Initializer, ("Initializer", "FusedRNN")),
    "optimizer": (("weight", "grad"), mx.optimizer.Optimizer, ("Optimizer", "Test", "ccSGD")),
    "gluon.data": (("data", "label"), mx.gluon.data.DataLoader, ()),
    "io": (("data", "label"), mx.io.NDArrayIter, ()),
}


def is_object(name):
    return name.rpartition(".")[0] in USES


def object_class(name):
    """The class for ``metric.Accuracy``. Raises MissingOperator: this build has none that could be used."""
    namespace, _, last = name.rpartition(".")
    _, base, left_out = USES[namespace]
    found = dotted(mx, name)
    if not (inspect.isclass(found) and issubclass(found, base)) or last in left_out:
        raise MissingOperator("mxnet {} has no {} that can be used".format(mx.__version__, name))
    return found


def make_use(case, inputs):
    """A function of no arguments that uses the case's object once. ``inputs``: an Inputs of the case."""
    name, given = case["operator"], case["inputs"]
    namespace = name.rpartition(".")[0]
    kind = object_class(name)
    used_with = [key for key in USES[namespace][0] if key in given]
    inputs.check_memory()
    numpy.random.seed(inputs.random("object").randint(2**31 - 1))  # what is shuffled is so alike on both sides
    tensors = {key: inputs.value(key, given[key], True) for key in used_with}
    arguments = {key: argument(value) for key, value in given.items() if key not in used_with}
    if namespace == "metric":
        return use_metric(kind(**arguments), *[listed(tensors.get(key)) for key in ("labels", "preds")])
    if namespace == "init":
        return use_initializer(kind(**arguments), *tensors.values())
    if namespace == "optimizer":
        return use_optimizer(kind(**arguments), *tensors.values())
    if namespace == "io":
        return use_iterator(kind(*tensors.values(), **arguments))
    loader = kind(mx.gluon.data.ArrayDataset(*tensors.values()), **arguments)
    return lambda: list(loader)  # every batch of the data once


def listed(value):
    return value if isinstance(value, list) or value is None else [value]


def arrays_of(state):
    """The arrays of an optimizer's state, which is one, several, or none."""
    if isinstance(state, (list, tuple)):
        return [array for one in state for array in arrays_of(one)]
    return [state] if isinstance(state, mx.nd.NDArray) else []


def parameters_of(name):
    """``[(name, whether it is required)]``: what the object is used with, then what its constructor takes."""
    own = inspect.signature(object_class(name).__init__).parameters
    used_with = USES[name.rpartition(".")[0]][0]
    found = [(key, key != "label") for key in used_with]
    for one in constructor_parameters(object_class(name)):
        required = one.default is one.empty and one.name in own and one.name not in ("dataset", "data")
        if one.name not in used_with and one.name != "dataset":
            found.append((one.name, required))
    return found
