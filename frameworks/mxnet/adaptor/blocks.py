"""Gluon blocks by name: made from plain data, with weights from the seed, imperative or hybridized.

Of a case's inputs those that the constructor takes go there, ``layers``, ``unroll`` and a recurrent block's ``states``
are ours, and the others are the tensors of the call, in the order written.
"""

import inspect

import mxnet as mx
import numpy
from mxnet import gluon
from mxnet.gluon import contrib  # noqa: F401 - its blocks are looked up in gluon

from .functions import function
from .graphs import BACKEND, hybridize
from .operators import MissingOperator, dotted
from .whole_numbers import check_block

ROOT = "gluon."
MODULES = ("nn", "rnn", "loss", "contrib.nn", "contrib.rnn", "contrib.cnn", "data.vision.transforms")
LAYERS = "layers"  # blocks for those that are made empty and added to
UNROLL = "unroll"  # steps of a recurrent cell in one call
STATES = "states"  # what a recurrent block begins with; made from the seed where they aren't given
POSITIVE = ("gamma", "alpha", "running_var")  # parameters that scale


def is_block(name):
    return name.startswith(ROOT)


def block_class(name):
    """The class for ``gluon.nn.Dense``.

    Raises ValueError for a name from elsewhere, MissingOperator where this build has no such block.
    """
    module, _, last = name[len(ROOT) :].rpartition(".")
    if not is_block(name) or module not in MODULES:
        raise ValueError("{}: blocks live under {}".format(name, ", ".join(ROOT + one for one in MODULES)))
    found = dotted(gluon, module + "." + last)
    if not (inspect.isclass(found) and issubclass(found, gluon.Block)):
        raise MissingOperator("mxnet {} has no block {}".format(mx.__version__, name))
    return found


def constructor_parameters(kind):
    """The constructor's parameters, those of its bases too where it passes on what it doesn't know, in order."""
    found = []
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        found += [one for one in named if one.name not in [other.name for other in found]]
        if base is gluon.Block or not any(one.kind == one.VAR_KEYWORD for one in parameters):
            break
    return found


def made_of(kind, name, arguments):
    """A block from its class, its name, and the plain data of its constructor's arguments and ``layers``."""
    arguments = dict(arguments)
    layers = arguments.pop(LAYERS, [])
    if layers and not hasattr(kind, "add"):
        raise ValueError("{} takes no {}".format(name, LAYERS))
    block = kind(**{key: argument(value) for key, value in arguments.items()})
    for layer in argument(layers):
        block.add(layer)
    return block


def argument(value):
    """What a constructor gets for plain data: lists become tuples, and ``{"block": name, ...}`` a block."""
    if isinstance(value, list):
        return tuple(argument(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "block" in value:
        name = value["block"]
        return made_of(block_class(name), name, {key: item for key, item in value.items() if key != "block"})
    if "value" in value:
        return argument(value["value"])
    if "function" in value:
        return function(value["function"])
    raise ValueError('{} is neither {{"value": ...}}, {{"block": ...}} nor {{"function": ...}}'.format(value))


class BlockCall:
    """A case's block, ready to be called."""

    def __init__(self, case, inputs, block=None):
        """``inputs``: an Inputs of the same case, which makes the tensors. Shapes are settled, weights are drawn.

        ``block``: a block's class in place of the one that the case names, or a block, which keeps its weights.
        """
        name, given = case["operator"], case["inputs"]
        is_made = block is not None and not inspect.isclass(block)
        kind = type(block) if is_made else block or block_class(name)
        self.stateful = hasattr(kind, "begin_state")
        ours = (UNROLL, BACKEND, STATES) if self.stateful else (UNROLL, BACKEND)
        taken = [] if is_made else [one.name for one in constructor_parameters(kind)] + [LAYERS]
        self.args = []
        inputs.check_memory()
        for key, value in given.items():
            if key not in taken and key not in ours:
                made = self.tensors(inputs, key, value, taken)
                self.args += made if key == "args" else [made]
        if not self.args:
            raise ValueError('{} is given no tensors: a call needs one, as in "data": [2, 3]'.format(name))
        self.block = block if is_made else made_of(kind, name, {key: given[key] for key in given if key in taken})
        self.given_states = None
        if self.stateful and given.get(STATES) is not None:
            made = self.tensors(inputs, STATES, given[STATES], taken)
            self.given_states = made if isinstance(made, list) else [made]
        check_block(name, self.block, self.args)
        self.call = self.caller(given.get(UNROLL), inputs)
        self.settle(case["dtype"], inputs, is_made)
        if case.get("mode") == "hybridized":
            self.hybridize(name, is_made, given.get(BACKEND))
        elif BACKEND in given:
            raise ValueError("{} rewrites only hybridized blocks: use that mode".format(BACKEND))

    def tensors(self, inputs, key, value, taken):
        """The tensors of one argument of the call: several for ``args``, else one, or a list in one argument."""
        made = inputs.value(key, value, True)
        if not (isinstance(made, mx.nd.NDArray) or (isinstance(made, list) and made)):
            known = ", ".join(taken)
            raise ValueError(
                "{} is neither an argument of the constructor nor a tensor: it takes {}".format(key, known or "none")
            )
        return made

    def hybridize(self, name, is_made, backend):
        if is_made:
            raise ValueError("{} is already constructed, and runs as it is: hybridize it first".format(name))
        if not hybridizable(self.block):
            raise ValueError("{} can't be hybridized: its mode is imperative".format(name))
        hybridize(self.block, backend)

    def caller(self, steps, inputs):
        """What is called with ``args``; recurrent cells and layers get states that were made beforehand."""
        block = self.block
        if isinstance(block, gluon.rnn.RecurrentCell):
            states = self.states(self.args[0].shape[0], inputs)
            if steps is not None:
                return lambda data: block.unroll(steps, data, begin_state=states, layout="NTC", merge_outputs=True)

            def step(data):
                block.reset()  # some keep the output of the step before
                return block(data, states)

            return step
        if steps is not None:
            raise ValueError("unroll is for recurrent cells, not for {}".format(type(block).__name__))
        if self.stateful:
            batch = self.args[0].shape[block._layout.find("N")]
            self.args.append(self.states(batch, inputs))
        return block

    def output(self, *args):
        """A call's output alone: a recurrent block returns its states beside it, perhaps the same tensor once more."""
        result = self.call(*args)
        return result[0] if self.stateful else result

    def states(self, batch, inputs):
        """States that a recurrent block begins with: those given, or from the seed."""
        if self.given_states is not None:
            return self.given_states
        found = self.block.state_info(batch)
        return [
            inputs.tensor("begin_state{}".format(i), list(one["shape"]), grad_req="null") for i, one in enumerate(found)
        ]

    def settle(self, dtype, inputs, is_made):
        """Make the parameters: their shapes come with a first call, their values from the seed and their names."""
        if is_made:
            self.call(*self.args)
        else:
            self.draw(dtype, inputs)
        for name, parameter in self.block._collect_params_with_prefix().items():
            if parameter.grad_req != "null":
                inputs.parameters[name] = parameter

    def draw(self, dtype, inputs):
        """Made again after the first call, which may have put them into an order of its own, where they can't be
        written."""
        if numpy.dtype(dtype).kind == "f" and dtype != "float32":
            self.block.cast(dtype)
        self.block.initialize(mx.init.Zero(), ctx=inputs.context)
        self.call(*self.args)
        mx.nd.waitall()
        self.block.initialize(mx.init.Zero(), ctx=inputs.context, force_reinit=True)
        for name, parameter in self.block._collect_params_with_prefix().items():
            if not isinstance(parameter, gluon.Constant):
                array = drawn(inputs.random("parameter " + name), name, parameter.shape)
                parameter.set_data(mx.nd.array(array, dtype=parameter.dtype, ctx=inputs.context))


def drawn(random, name, shape):
    """Values of a parameter, as an array: of size 1 or so, that outputs neither vanish nor explode."""
    if name.endswith(POSITIVE):
        return random.uniform(0.5, 1.5, size=shape)
    inputs = max(1, int(numpy.prod(shape[1:])))
    return random.normal(size=shape) / numpy.sqrt(inputs)


def hybridizable(block):
    return isinstance(block, gluon.HybridBlock) or any(hybridizable(one) for one in block._children.values())


def mode_of(block):
    """How a block that is made already runs: ``hybridized`` if it, or any within it, is a graph."""
    active = getattr(block, "_active", False) or any(mode_of(one) == "hybridized" for one in block._children.values())
    return "hybridized" if active else "imperative"
