"""ONNX Runtime's error messages: which line says what is wrong, and whether a kernel or a schema is missing."""

import re

# "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find ...", and a path with a line and a function's signature.
CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : ([A-Z_]+) : ")
PLACE = re.compile(r"\S*/onnxruntime/\S+:\d+ ")
# A kernel that the CPU provider doesn't register, and an operator that the build has no schema of.
ABSENT = ("Could not find an implementation for", "is not a registered function/op", "No Op registered for")


class MissingOperator(Exception):
    """The build has no such operator, or none of that opset and of these types."""

    kind = "missing"


def key_line(message):
    """The first line that isn't empty, without the place in the source, which differs between builds."""
    line = next((one.strip() for one in message.splitlines() if one.strip()), "no reason given")
    return PLACE.sub("", CODE.sub("", line))


def says_absent(message):
    """Whether the build lacks the operator itself, of that version or of those types."""
    return any(words in message for words in ABSENT)
