"""Make the synchronous calls of an operator: forward, backward alone, or both, as in training."""

import mxnet as mx


def outputs_of(result):
    """Return the outputs as a flat list; a recurrent block returns its states in a nested one."""
    if not isinstance(result, (list, tuple)):
        return [result]
    return [output for part in result for output in outputs_of(part)]


def wait_for(results):
    """Block until MXNet's asynchronous engine has computed these results; without results, until it has finished.

    An operator that returns None or an empty list (reset_arrays) works on its arguments.
    """
    if not results:
        mx.nd.waitall()
    for result in results:
        if hasattr(result, "wait_to_read"):
            result.wait_to_read()
        else:
            mx.nd.waitall()


def forward_call(operator, args, kwargs, gradients=()):
    def call():
        result = operator(*args, **kwargs)
        try:
            result.wait_to_read()
        except AttributeError:  # several outputs, or a plain number
            wait_for(outputs_of(result))

    return call


def recorded_heads(operator, args, kwargs):
    with mx.autograd.record():
        return outputs_of(operator(*args, **kwargs))


def head_gradients(heads):
    """Return ones for every output.

    Without them ``backward`` would make them in every call. In a network they come from the next operator.
    """

    def ones_like(head):
        is_numpy = hasattr(mx, "np") and isinstance(head, mx.np.ndarray)
        return (mx.np if is_numpy else mx.nd).ones(head.shape, dtype=head.dtype, ctx=head.context)

    return [ones_like(head) if isinstance(head, mx.nd.NDArray) and 0 not in head.shape else None for head in heads]


def backward_call(operator, args, kwargs, gradients):
    """Return a function that runs backward alone, on a graph that is recorded once."""
    heads = recorded_heads(operator, args, kwargs)
    weights = head_gradients(heads)
    mx.nd.waitall()

    def call():
        mx.autograd.backward(heads, head_grads=weights, retain_graph=True)
        wait_for(gradients)

    return call


def both_call(operator, args, kwargs, gradients):
    """Return a function that runs forward, recording the graph, and then backward, as in training."""
    weights = head_gradients(recorded_heads(operator, args, kwargs))
    mx.nd.waitall()

    def call():
        heads = recorded_heads(operator, args, kwargs)
        mx.autograd.backward(heads, head_grads=weights)
        wait_for(gradients)

    return call


MAKE_CALL = {"forward": forward_call, "backward": backward_call, "both": both_call}
