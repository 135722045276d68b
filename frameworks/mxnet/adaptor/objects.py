"""Make and use metrics, initializers, optimizers, data loaders and iterators.

Inputs of the case in ``USES`` are tensors for the object's use; the others go to the constructor.
"""

import functools
import inspect

import mxnet as mx
import numpy

from opduel_common.names import constructor_parameters
from opduel_common.scripts import list_arguments

from .blocks import argument, as_list
from .operators import MissingOperator, dotted

WEIGHT = mx.init.InitDesc("weight")


def use_metric(metric, labels, preds):
    """Reset the metric, update it with one batch, and read it."""
    metric.reset()
    metric.update(labels, preds)
    return metric.get()[1]


def use_initializer(initializer, data):
    """Fill an array in place."""
    initializer(WEIGHT, data)
    return data


def use_optimizer(optimizer, state, weight, grad):
    """Run one step, in Python: state, schedule and the operators that it calls."""
    optimizer.update(0, weight, grad, state)
    return [weight, *arrays_of(state)]


def use_iterator(iterator):
    """Read every batch once, from the beginning."""
    iterator.reset()
    return [batch.data + batch.label for batch in iterator]


# Namespace -> tensors for an object's use, the base class, and names that can't be measured: they wrap other objects,
# take a function, compute nothing, or read files.
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
    """Return the class for a name such as ``metric.Accuracy``. Raise MissingOperator if this build has none."""
    namespace, _, last = name.rpartition(".")
    _, base, left_out = USES[namespace]
    member = dotted(mx, name)
    if not (inspect.isclass(member) and issubclass(member, base)) or last in left_out:
        raise MissingOperator(f"mxnet {mx.__version__} has no {name} that can be used")
    return member


def make_use(case, inputs):
    """Return a function that uses the case's object once. ``inputs``: the Inputs of the case."""
    name, case_inputs = case["operator"], case["inputs"]
    namespace = name.rpartition(".")[0]
    kind = object_class(name)
    used_with = [key for key in USES[namespace][0] if key in case_inputs]
    inputs.check_memory()
    numpy.random.seed(inputs.random("object").randint(2**31 - 1))  # both sides shuffle alike
    tensors = {key: inputs.value(key, case_inputs[key]) for key in used_with}
    arguments = {key: argument(value) for key, value in case_inputs.items() if key not in used_with}
    if namespace == "gluon.data":
        return functools.partial(list, kind(mx.gluon.data.ArrayDataset(*tensors.values()), **arguments))
    if namespace == "io":
        return functools.partial(use_iterator, kind(*tensors.values(), **arguments))
    used = kind(**arguments)
    if namespace == "metric":
        return functools.partial(use_metric, used, *[as_list(tensors.get(key)) for key in ("labels", "preds")])
    if namespace == "init":
        return functools.partial(use_initializer, used, *tensors.values())
    return functools.partial(use_optimizer, used, used.create_state(0, tensors.get("weight")), *tensors.values())


def arrays_of(state):
    """Return the arrays of an optimizer's state, which holds any number of them."""
    if isinstance(state, (list, tuple)):
        return [array for part in state for array in arrays_of(part)]
    return [state] if isinstance(state, mx.nd.NDArray) else []


def arguments_of(name):
    """Return ``[[name, kind], ...]``: the tensors for the object's use, then its constructor's parameters."""
    kind = object_class(name)
    own, used_with = inspect.signature(kind.__init__).parameters, USES[name.rpartition(".")[0]][0]
    arguments = [[key, "optional" if key == "label" else "tensor"] for key in used_with]
    for key, needed in list_arguments(constructor_parameters(kind), (*used_with, "dataset")):
        arguments.append([key, needed if key in own and key != "data" else "optional"])
    return arguments
