"""Read ONNX Runtime's error messages: their key line, and whether a kernel or a schema is missing."""

import re

CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
PLACE = re.compile(r"\S+\.(cc|h):\d+ ")  # in the source; a function's signature may follow
# The CPU provider has no such kernel, or the build no schema of the operator.
ABSENT = ("Could not find an implementation for", "is not a registered function/op", "No Op registered for")


def key_line(message):
    """Return the first line that isn't empty, without the place in the source and its function, which vary by build."""
    line = next((text_line.strip() for text_line in message.splitlines() if text_line.strip()), "no reason given")
    line = CODE.sub("", line)
    place = PLACE.search(line)
    return line if place is None else line[: place.start()] + without_signature(line[place.end() :])


def without_signature(text):
    """Return ``text`` without the signature of a C++ function that it may begin with."""
    if "onnxruntime::" not in text.partition("(")[0]:
        return text
    depth, text = 0, text.replace("::<lambda()>", "")
    for number, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ")" and depth == 0:
            return re.sub(r"^( const)?( \[with .*?\])? ", "", text[number + 1 :])
    return text


def says_absent(message):
    """Return whether the build lacks the operator itself, for this opset or these types."""
    return any(words in message for words in ABSENT)
