"""ONNX Runtime's error messages: which line says what is wrong, and whether a kernel or a schema is missing."""

import re

CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
PLACE = re.compile(r"\S+\.(cc|h):\d+ ")  # in the source; a function's signature may follow
# A kernel that the CPU provider doesn't register, and an operator that the build has no schema of.
ABSENT = ("Could not find an implementation for", "is not a registered function/op", "No Op registered for")


class MissingOperator(Exception):
    """The build has no such operator, or none of that opset and of these types."""

    kind = "missing"


def key_line(message):
    """The first line that isn't empty, without the place in the source and its function: these differ by build."""
    line = next((one.strip() for one in message.splitlines() if one.strip()), "no reason given")
    line = CODE.sub("", line)
    place = PLACE.search(line)
    return line if place is None else line[: place.start()] + without_signature(line[place.end() :])


def without_signature(text):
    """``text`` without the C++ function that it may begin with: up to the end of its arguments and what is bound."""
    if "onnxruntime::" not in text.partition("(")[0]:
        return text
    depth, text = 0, text.replace("::<lambda()>", "")
    for number, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ")" and depth == 0:
            return re.sub(r"^( const)?( \[with .*?\])? ", "", text[number + 1 :])
    return text


def says_absent(message):
    """Whether the build lacks the operator itself, of that version or of those types."""
    return any(words in message for words in ABSENT)
