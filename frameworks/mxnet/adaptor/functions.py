"""Functions that a spec can name as an argument: for operators that call one, and for lambda blocks.

Those of a lambda block take ``F``, mx.nd or mx.sym, first; the others are bodies of loops and branches.  What nd.Custom
runs is registered here, too.
"""

import mxnet as mx

STEPS = 10  # of the loops


class Logistic(mx.autograd.Function):
    """1 / (1 + exp(-x)), with a gradient of its own that is written in Python."""

    def forward(self, data):
        result = 1 / (1 + mx.nd.exp(-data))
        self.save_for_backward(result)
        return result

    def backward(self, gradient):
        (result,) = self.saved_tensors
        return gradient * result * (1 - result)


class AddOne(mx.operator.CustomOp):
    """What nd.Custom runs: an operator written in Python, so that it is the way there and back that is measured."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("opduel_add_one")
class AddOneProperties(mx.operator.CustomOpProp):
    def __init__(self):
        super(AddOneProperties, self).__init__(need_top_grad=True)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return AddOne()


def add_to_state(item, state):
    """A body of foreach: a running sum."""
    total = item + state
    return total, total


def few_steps(step, total):
    """A condition of while_loop."""
    return step < STEPS


def add_one(step, total):
    """A body of while_loop, without an output of its own."""
    return [], [step + 1, total + 1]


def double(data):
    return data * 2


def square(data):
    return data * data


def foreach(F, data):
    """A running sum along the first axis."""
    return F.contrib.foreach(add_to_state, data, data.sum(axis=0) * 0)[0]


def while_loop(F, data):
    """The data and STEPS times 1."""
    return F.contrib.while_loop(few_steps, add_one, [F.zeros((1,)), data], max_iterations=STEPS)[1][1]


def cond(F, data):
    """Twice the data, or their squares."""
    return F.contrib.cond(data.sum() < 0, lambda: double(data), lambda: square(data))


def logistic(data):
    return Logistic()(data)


def sum_over(data, axis):
    """As np.apply_over_axes calls one, with an array of the official NumPy."""
    return data.sum(axis=axis, keepdims=True)


FUNCTIONS = {
    one.__name__: one
    for one in (*(add_to_state, few_steps, add_one, double, square, sum_over), *(foreach, while_loop, cond, logistic))
}


def function(name):
    """The function of this name. Raises ValueError: there is none."""
    if name not in FUNCTIONS:
        raise ValueError("function {!r} is not known: use one of {}".format(name, ", ".join(sorted(FUNCTIONS))))
    return FUNCTIONS[name]
