"""Run in a build: print a digest of the tensors, and their types, of each case on stdin."""

import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

digests = []
for case, seed in json.load(sys.stdin):
    inputs = adaptor.Inputs(case, seed)
    inputs.arguments()
    digest = hashlib.sha256()
    for name in sorted(inputs.tensors):
        array = inputs.tensors[name].asnumpy()
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    digests.append(digest.hexdigest())
json.dump(digests, sys.stdout)
