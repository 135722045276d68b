"""Functions that a spec can name as an argument, for operators that call one, and for lambda blocks.

Functions of a lambda block take ``F``, mx.nd or mx.sym, first; the others are bodies of loops and branches.  The
operator for nd.Custom is registered here, too.
"""

import mxnet as mx

STEPS = 10  # of the loops


class Logistic(mx.autograd.Function):
    """1 / (1 + exp(-x)), with a gradient that is written in Python."""

    def forward(self, data):
        result = 1 / (1 + mx.nd.exp(-data))
        self.save_for_backward(result)
        return result

    def backward(self, gradient):
        (result,) = self.saved_tensors
        return gradient * result * (1 - result)


class AddOne(mx.operator.CustomOp):
    """The operator of nd.Custom, so small that the way to Python and back is measured."""

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
    """Compute a running sum, as a body of foreach."""
    total = item + state
    return total, total


def few_steps(step, total):
    """Return the condition of a while_loop."""
    return step < STEPS


def add_one(step, total):
    """Add one, as a body of while_loop without outputs."""
    return [], [step + 1, total + 1]


def double(data):
    return data * 2


def square(data):
    return data * data


def foreach(F, data):
    """Return a running sum along the first axis."""
    return F.contrib.foreach(add_to_state, data, data.sum(axis=0) * 0)[0]


def while_loop(F, data):
    """Return the data plus STEPS."""
    return F.contrib.while_loop(few_steps, add_one, [F.zeros((1,)), data], max_iterations=STEPS)[1][1]


def cond(F, data):
    """Return twice the data, or their squares."""
    return F.contrib.cond(data.sum() < 0, lambda: double(data), lambda: square(data))


def logistic(data):
    return Logistic()(data)


def sum_over(data, axis):
    """Return sums over an axis; np.apply_over_axes calls it with an array of the official NumPy."""
    return data.sum(axis=axis, keepdims=True)


FUNCTIONS = {
    function.__name__: function
    for function in (
        *(add_to_state, few_steps, add_one, double, square, sum_over),
        *(foreach, while_loop, cond, logistic),
    )
}


def function(name):
    """Return the function of this name. Raise ValueError if there is none."""
    if name not in FUNCTIONS:
        raise ValueError("function {!r} is not known: use one of {}".format(name, ", ".join(sorted(FUNCTIONS))))
    return FUNCTIONS[name]
