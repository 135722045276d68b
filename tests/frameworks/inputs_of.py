"""Run in a build: return a digest of the tensors, and their types, of each case and seed."""

import hashlib

from build_script import adaptor, answer_each


def digest_of(tensors):
    """Return a digest of the values, dtypes and shapes of tensors by name."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = tensors[name].asnumpy()
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def answer(question):
    inputs = adaptor.Inputs(*question)
    inputs.arguments()
    return digest_of(inputs.tensors)


if __name__ == "__main__":
    answer_each(answer)
