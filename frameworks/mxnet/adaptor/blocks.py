"""Make Gluon blocks by name from a case's JSON, with weights from the seed, imperative or hybridized.

Inputs of the case that the constructor takes go there, ``layers``, ``unroll`` and a recurrent block's ``states`` are
special, and the others are the tensors of the call, in the order written.
"""

import inspect

import mxnet as mx
import numpy
from mxnet import gluon
from mxnet.gluon import contrib  # noqa: F401 - its blocks are looked up in gluon

from opduel_common.names import constructor_names
from opduel_common.values import draw_parameter

from .functions import function
from .graphs import BACKEND, hybridize
from .operators import MissingOperator, dotted

ROOT = "gluon."
MODULES = ("nn", "rnn", "loss", "contrib.nn", "contrib.rnn", "contrib.cnn", "data.vision.transforms")
LAYERS = "layers"  # the blocks within a container
UNROLL = "unroll"  # steps of a recurrent cell in one call
STATES = "states"  # initial states of a recurrent block; by default from the seed
POSITIVE = ("gamma", "alpha", "running_var")  # suffixes of parameters that scale


def is_block(name):
    return name.startswith(ROOT)


def is_block_class(value):
    return inspect.isclass(value) and issubclass(value, gluon.Block)


def block_class(name):
    """Return the class for a name such as ``gluon.nn.Dense``.

    Raise ValueError if no block can have this name, MissingOperator if this build has no such block.
    """
    module, _, last = name[len(ROOT) :].rpartition(".")
    if not is_block(name) or module not in MODULES:
        raise ValueError(f"{name}: blocks live under {ROOT}{f', {ROOT}'.join(MODULES)}")
    member = dotted(gluon, module + "." + last)
    if not is_block_class(member):
        raise MissingOperator(f"mxnet {mx.__version__} has no block {name}")
    return member


def make_block(kind, name, arguments):
    """Return a block of a class, from the JSON of its constructor's arguments and ``layers``."""
    arguments = dict(arguments)
    layers = arguments.pop(LAYERS, [])
    if layers and not hasattr(kind, "add"):
        raise ValueError(f"{name} takes no {LAYERS}")
    block = kind(**{key: argument(value) for key, value in arguments.items()})
    for layer in argument(layers):
        block.add(layer)
    return block


def argument(value):
    """Return a constructor's argument: lists become tuples, and ``{"block": name, ...}`` becomes a block."""
    if isinstance(value, list):
        return tuple(argument(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "block" in value:
        name = value["block"]
        return make_block(block_class(name), name, {key: item for key, item in value.items() if key != "block"})
    if "value" in value:
        return argument(value["value"])
    if "function" in value:
        return function(value["function"])
    raise ValueError(f'{value} is neither {{"value": ...}}, {{"block": ...}} nor {{"function": ...}}')


def as_list(value):
    return value if isinstance(value, list) or value is None else [value]


class BlockCall:
    """A case's block and the arguments of its call."""

    def __init__(self, case, inputs, block=None):
        """Make the block and its weights. ``inputs``, the Inputs of the case, makes the tensors.

        ``block``: a class in place of the case's operator, or a block, which keeps its weights.
        """
        name, case_inputs = case["operator"], case["inputs"]
        is_made = block is not None and not inspect.isclass(block)
        kind = type(block) if is_made else block or block_class(name)
        self.inputs = inputs
        self.stateful = hasattr(kind, "begin_state")
        made_of = [] if is_made else [*constructor_names(kind), LAYERS]
        inputs.check_memory()
        self.args = []
        for key, value in case_inputs.items():
            if key not in (*made_of, UNROLL, BACKEND) and not (self.stateful and key == STATES):
                tensors = self.tensors(key, value, made_of)
                self.args += tensors if key == "args" else [tensors]
        if not self.args:
            raise ValueError(f'{name} is given no tensors: a call needs one, as in "data": [2, 3]')
        constructor_inputs = {key: value for key, value in case_inputs.items() if key in made_of}
        self.block = block if is_made else make_block(kind, name, constructor_inputs)
        self.given_states = None
        if self.stateful and case_inputs.get(STATES) is not None:
            self.given_states = as_list(self.tensors(STATES, case_inputs[STATES], made_of))
        self.call = self.caller(case_inputs.get(UNROLL))
        if is_made:
            self.call(*self.args)  # sets the parameters' shapes
        else:
            self.draw_parameters(case["dtype"])
        for parameter_name, parameter in self.block._collect_params_with_prefix().items():
            if parameter.grad_req != "null":
                inputs.parameters[parameter_name] = parameter
        self.set_mode(name, case.get("mode"), is_made, case_inputs)

    def tensors(self, key, value, made_of):
        """Return the tensors of one argument of the call: a list for ``args``, else a tensor or a list of them."""
        tensors = self.inputs.value(key, value)
        if not (isinstance(tensors, mx.nd.NDArray) or (isinstance(tensors, list) and tensors)):
            taken = ", ".join(made_of) or "none"
            raise ValueError(f"{key} is neither an argument of the constructor nor a tensor: it takes {taken}")
        return tensors

    def set_mode(self, name, mode, is_made, case_inputs):
        """Hybridize the block if that is its mode. Raise ValueError if that can't be."""
        if mode != "hybridized":
            if BACKEND in case_inputs:
                raise ValueError(f"{BACKEND} rewrites only hybridized blocks: use that mode")
            return
        if is_made:
            raise ValueError(f"{name} is already constructed, and runs as it is: hybridize it first")
        if not can_be_hybridized(self.block):
            raise ValueError(f"{name} can't be hybridized: its mode is imperative")
        hybridize(self.block, case_inputs.get(BACKEND))

    def caller(self, steps):
        """Return the function that is called with ``args``; recurrent cells and layers get states made beforehand."""
        block = self.block
        if isinstance(block, gluon.rnn.RecurrentCell):
            states = self.states(self.args[0].shape[0])
            if steps is not None:
                return lambda data: block.unroll(steps, data, begin_state=states, layout="NTC", merge_outputs=True)

            def step(data):
                block.reset()  # some cells store the last output
                return block(data, states)

            return step
        if steps is not None:
            raise ValueError(f"unroll is for recurrent cells, not for {type(block).__name__}")
        if self.stateful:
            batch = self.args[0].shape[block._layout.find("N")]
            self.args.append(self.states(batch))
        return block

    def output(self, *args):
        """Return a call's output without the states of a recurrent block, which may be the same tensor."""
        result = self.call(*args)
        return result[0] if self.stateful else result

    def states(self, batch):
        """Return a recurrent block's initial states: the case's, or from the seed."""
        if self.given_states is not None:
            return self.given_states
        descriptions = self.block.state_info(batch)
        return [
            self.inputs.array(f"begin_state{i}", {"shape": list(description["shape"]), "grad_req": "null"})
            for i, description in enumerate(descriptions)
        ]

    def draw_parameters(self, dtype):
        """Draw the parameters.

        They are made again after the first call, which may have laid them out so that they can't be written.
        """
        if numpy.dtype(dtype).kind == "f" and dtype != "float32":
            self.block.cast(dtype)
        context = self.inputs.context
        self.block.initialize(mx.init.Zero(), ctx=context)
        self.call(*self.args)
        mx.nd.waitall()
        self.block.initialize(mx.init.Zero(), ctx=context, force_reinit=True)
        for name, parameter in self.block._collect_params_with_prefix().items():
            if not isinstance(parameter, gluon.Constant):
                random = self.inputs.random("parameter " + name)
                array = draw_parameter(random, parameter.shape, name.endswith(POSITIVE))
                parameter.set_data(mx.nd.array(array, dtype=parameter.dtype, ctx=context))


def can_be_hybridized(block):
    return isinstance(block, gluon.HybridBlock) or any(can_be_hybridized(child) for child in block._children.values())


def mode_of(block):
    """Return the mode of an existing block: ``hybridized`` if it, or a block within it, is a graph."""
    active = getattr(block, "_active", False) or any(
        mode_of(child) == "hybridized" for child in block._children.values()
    )
    return "hybridized" if active else "imperative"
