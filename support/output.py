"""A program's output: the one line that says what went wrong, and bounds on its size on disk."""

import os
import re
from collections.abc import Sequence
from itertools import groupby

from opduel.support.text import without_controls

MOST_KEPT = 64 * 2**20  # bytes of output in a file
KEPT_END = 2**20  # bytes of each end of longer output
_MOST_READ = 2 * 2**20  # characters in which the key line is searched
_TRACEBACK = "Traceback (most recent call last):"
# Beginnings of tracebacks while Python exits, which come after the exception that ended the program.
_ON_EXIT = ("Exception ignored in", "Error in atexit._run_exitfuncs")
_PLACE = re.compile(r'\s+File "(.+)", line (\d+)')
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Failure)(?::.*)?$")
_SYNTAX = re.compile(r"(?:SyntaxError|IndentationError|TabError)\b")
# gcc, clang and nvcc; linkers; CMake and Ninja.
_COMPILER = re.compile(
    r".+?:\d+(?::\d+)?: (?:fatal )?error\b"
    r"|\S+\(\d+\): (?:fatal )?error\b"
    r"|\S*(?:gcc|g\+\+|cc|c\+\+|cc1|cc1plus|clang|clang\+\+|nvcc|ld|cmake|ninja)(?:-[\d.]+)?: (?:fatal )?error\b"
    r"|.*: undefined reference to "
    r"|.*\bcannot find -l\S+"
    r"|CMake Error\b"
)
_FATAL = re.compile(
    r"\s*what\(\):\s"
    r"|(?:Fatal Error: |\*\*\* )?(?:Segmentation fault|Floating point exception|Illegal instruction|Bus error"
    r"|Aborted)\b"
    r"|.*\bCheck failed: "
    r"|.*\bAssertion `.*' failed"
    r"|Fatal Python error: ",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"(?:[\w./:+-]+: )?(?:fatal|error): |.*(?:could not|couldn't) resolve host|.*temporary failure in name resolution",
    re.IGNORECASE,
)
_CAUSE = re.compile(r"\s+(?:cause|Caused by): ")  # as uv prints them, the innermost last
_OF_BACKEND = re.compile(rf"{_CAUSE.pattern}The build backend returned an error")  # which has said why before
# Lines that any run prints: logs of dmlc (``[12:05:32] src/a.cc:54: ...``), glog (``I0102 12:05:32.1 7 a.cc:9] ...``)
# and Python without an error in them; warnings; frames of a C++ stack; what Ninja and make print after any failure.
_ROUTINE = re.compile(
    r"\[\d\d:\d\d:\d\d\] \S+:\d+: (?!.*(?:error|fail|fatal|abort))"
    r"|[IW]\d{4} \d\d:\d\d:\d\d\S* "
    r"|(?:INFO|DEBUG|WARNING)\b"
    r"|\S+:\d+: \w*Warning: "
    r"|\[bt\] "
    r"|ninja: build stopped"
    r"|Building (?:wheel|source distribution)\.\.\."
    r"|make(?:\[\d+\])?: \*\*\* ",
    re.IGNORECASE,
)


def key_line(text: str) -> str:
    """Return the line of a program's output that says what went wrong, without color and indentation; empty without
    output.

    It is the first of these that exists: a compiler's, linker's or CMake's first error; the exception that ended a
    Python program; the first line about a fatal signal, a failed check or a C++ exception; the last line ``error:
    ...``, or the innermost of its causes; the last line that is not routine; the last line.
    """
    if len(text) > _MOST_READ:
        text = f"{text[: _MOST_READ // 2]}\n{text[-_MOST_READ // 2 :]}"
    # Of equal lines in a row one is as good as all: a program that prints for ever prints the same.
    lines = [line for line in (without_controls(line).rstrip() for line, _ in groupby(text.splitlines())) if line]
    if not lines:
        return ""
    end = next((number - 1 for number, line in enumerate(lines) if _OF_BACKEND.match(line)), 0)
    if not all(_ROUTINE.match(line.strip()) for line in lines[:end]):
        lines = lines[:end]
    for find in (_compiler_error, _exception, _fatal_error, _plain_error):
        if error_line := find(lines):
            return error_line
    return next((line for line in reversed(lines) if not _ROUTINE.match(line.strip())), lines[-1]).strip()


def keep_ends(descriptor: int, most: int, end: int = KEPT_END) -> None:
    """Shorten a file of more than ``most`` bytes, into which a program prints, to ``end`` bytes of each end.

    The file must be open for reading and appending, and the program must append, too (O_APPEND). Output of the same
    moment may be lost.
    """
    size = os.fstat(descriptor).st_size
    if size <= most:
        return
    tail = os.pread(descriptor, end, size - end)
    os.ftruncate(descriptor, end)
    os.write(descriptor, b"\n[%d bytes of output left out]\n" % (size - 2 * end) + tail)


def _compiler_error(lines: Sequence[str]) -> str:
    number = next((number for number, line in enumerate(lines) if _COMPILER.match(line)), None)
    return "" if number is None else _completed(lines, number)


def _exception(lines: Sequence[str]) -> str:
    """Return the exception of the last traceback; without one, the last line that looks like an exception."""
    starts = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    ended_it = [number for number in starts if not (number and lines[number - 1].startswith(_ON_EXIT))]
    for start in reversed(ended_it or starts):
        for number in range(start + 1, len(lines)):
            if not lines[number].startswith((" ", "\t")):
                return _with_place(lines, number)
    last = next((number for number in reversed(range(len(lines))) if _EXCEPTION.match(lines[number])), None)
    return "" if last is None else _with_place(lines, last)


def _with_place(lines: Sequence[str], number: int) -> str:
    line = _completed(lines, number)
    if not _SYNTAX.match(line):
        return line
    places = (_PLACE.match(lines[before]) for before in range(number - 1, -1, -1))
    place = next((match for match in places if match), None)
    return f"{line} ({place[1]}, line {place[2]})" if place else line


def _completed(lines: Sequence[str], number: int) -> str:
    line = lines[number].strip()
    if line.endswith(":") and number + 1 < len(lines):
        return f"{line} {lines[number + 1].strip()}"
    return line


def _fatal_error(lines: Sequence[str]) -> str:
    line = next((line.strip() for line in lines if _FATAL.match(line)), "")
    return line.removeprefix("what():").strip()


def _plain_error(lines: Sequence[str]) -> str:
    number = next((number for number in reversed(range(len(lines))) if _ERROR.match(lines[number])), None)
    if number is None:
        return ""
    causes = [line.strip() for line in lines[number + 1 :] if _CAUSE.match(line)]
    return causes[-1].partition(": ")[2] if causes else lines[number].strip()
