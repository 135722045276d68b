"""Run in a build: print for each direction how often one call runs the operator and the backward pass."""

import json
import os
import sys

import mxnet as mx

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

counts = {"operator": 0, "backward": 0}


def counted(name, function):
    def wrapper(*args, **kwargs):
        counts[name] += 1
        return function(*args, **kwargs)

    return wrapper


mx.nd.exp = counted("operator", mx.nd.exp)
mx.autograd.backward = counted("backward", mx.autograd.backward)

counts_by_direction = {}
for direction in ("forward", "backward", "both"):
    inputs = {"data": [64, 64]}
    case = {
        "id": "a",
        "operator": "nd.exp",
        "direction": direction,
        "inputs": inputs,
        "dtype": "float32",
        "context": "cpu",
    }
    call = adaptor.make_call(case, 1)
    for name in counts:
        counts[name] = 0
    call()
    counts_by_direction[direction] = [counts["operator"], counts["backward"]]
json.dump(counts_by_direction, sys.stdout)
