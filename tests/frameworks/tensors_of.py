"""Run in a build: return for each case a digest of its tensors, and the sizes of sparse ones.

An operator that works in place is called some hundred times; "unchanged" tells whether its tensor is the same then.
"""

import mxnet as mx
from build_script import adaptor, answer_each
from inputs_of import digest_of


def answer(case):
    (mx.npx.set_np if case["operator"].startswith("np") else mx.npx.reset_np)()
    inputs = adaptor.Inputs(case, 7)
    args, kwargs = inputs.arguments()
    operator = adaptor.resolve(case["operator"])
    digest = digest_of(inputs.tensors)
    in_place = ".__i" in case["operator"]
    is_unchanged = None
    if in_place:
        before = args[0].asnumpy()
        for _ in range(300 if before.size < 5000 else 20):
            operator(*args, **kwargs)
        is_unchanged = bool((args[0].asnumpy() == before).all())
    return {
        "operator": case["operator"],
        "digest": digest,
        "stored": {name: tensor.data.shape[0] for name, tensor in inputs.tensors.items() if tensor.stype != "default"},
        "in_place": in_place,
        "unchanged": is_unchanged,
    }


answer_each(answer)
