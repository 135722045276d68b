"""The texts that options take, and the values that they stand for: types for argparse, whose errors name the fix."""

import argparse
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from opduel.records import METRICS, SAMPLED, UsageError
from opduel.records.case import CONTEXT_PATTERN, DIRECTIONS, MAX_INPUT_SETS

N = TypeVar("N", int, float)
PROGRAM_WORD = "program"  # {program} is the program itself


def variable(text: str) -> tuple[str, str]:
    """``NAME=VALUE``. The value isn't repeated in errors: it may be a secret."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{name[:40]!r} has no =: write NAME=VALUE")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise argparse.ArgumentTypeError(
            f"{name[:40]!r} is not a variable name: use letters, digits and _, as in DNNL_VERBOSE=1"
        )
    return name, value


def path(text: str) -> Path:
    """A path, with the folder of ``~`` or ``~user`` written out."""
    if not text:
        raise argparse.ArgumentTypeError("the value is empty: give a path, or leave the option out")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"{text}: there is no such user: give the full path") from None


def report_file(text: str) -> Path:
    """A report.json that is there. UsageError: it isn't, as who reads it would say."""
    if not os.path.lexists(text):
        raise UsageError(f"{text}: cannot be read (No such file or directory): give the path of a report.json")
    return Path(text)


def share(text: str) -> float:
    """``2%`` or ``0.02`` -> 0.02; from 0 up, below 1."""
    number = text.strip().removesuffix("%")
    with suppress(ValueError):
        value = float(number) / (100 if number != text.strip() else 1)
        if 0 <= value < 1:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a share of at least 0 and less than 1: write 2% or 0.02")


def sample(text: str) -> str:
    """How many cases are drawn: ``200``, or a share of them, ``5%``; returned as it was given."""
    if not text.strip().endswith("%"):
        positive(text)
    elif share(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} leaves no case: give a larger share, or a number of cases")
    return text.strip()


def threshold(text: str) -> dict[str, float]:
    """``2%`` -> the share for every metric; ``instructions=0.5%`` -> for one."""
    name, equals, value = text.partition("=")
    if not equals:
        return dict.fromkeys(SAMPLED, share(text))
    if name in METRICS and name not in SAMPLED:
        raise argparse.ArgumentTypeError(f"{text!r}: {name} has no threshold but a tolerance, which a spec can set")
    if name not in METRICS:
        raise argparse.ArgumentTypeError(f"{text!r} names no metric: write one of {', '.join(SAMPLED)} before the =")
    try:
        return {name: share(value)}
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def context(text: str) -> str:
    """``cpu``, ``gpu`` or ``gpu(1)``."""
    if not re.match(CONTEXT_PATTERN.removesuffix("$") + r"\Z", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a context: use cpu, gpu, or one of several such as gpu(1)")
    return text


def frequency(text: str) -> str:
    """``max``, ``mid``, ``min``, or a number of MHz; returned as it was given."""
    if text not in ("max", "mid", "min") and not re.fullmatch(r"[1-9]\d{1,4}(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r}: give max, mid or min, or a number of MHz, as 2400")
    return text


def command_words(text: str) -> str:
    """``--command_args``: words, quoted as for a shell."""
    try:
        shlex.split(text)
        return text
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}: quote it as for a shell") from None


def string_map(text: str) -> str:
    """``--string_map``: a JSON object of texts and numbers."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    values = document.values() if isinstance(document, dict) and PROGRAM_WORD not in document else [None]
    if not all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in values):
        fix = 'write {"size": "100"}'
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a JSON object of texts and numbers: {fix}")
    return text


def _names_of(choices: Collection[str]) -> Callable[[str], list[str]]:
    """Names that are known, with commas between: ``time,instructions`` -> the names, each once."""

    def names(text: str) -> list[str]:
        names = list(dict.fromkeys(text.split(",")))
        for name in names:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"{text!r} holds {name!r}: use one or more of {', '.join(choices)}")
        return names

    return names


def _number(
    kind: type[N], what: str, low: float, high: float = sys.float_info.max, is_low_excluded: bool = False
) -> Callable[[str], N]:
    """A number of this range; ``what`` says it in words."""

    def number(text: str) -> N:
        with suppress(ValueError):
            value = kind(text)
            if low <= value <= high and not (is_low_excluded and value == low):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")

    return number


metrics, directions = _names_of(METRICS), _names_of(DIRECTIONS)
seconds = _number(float, "a number of seconds above 0", 0, is_low_excluded=True)
pause = _number(float, "a number of seconds, 0 or more", 0)
cache_size = _number(float, "a number of GiB above 0", 0, is_low_excluded=True)
gibibytes = _number(float, "a number of GiB, 0 or more", 0)
probability = _number(float, "a number between 0 and 1, such as 0.05", 0, math.nextafter(1, 0), is_low_excluded=True)
count, positive = _number(int, "a whole number, 0 or more", 0), _number(int, "a whole number of at least 1", 1)
seed = _number(int, f"a whole number from 0 to {2**32 - 1}", 0, 2**32 - 1)
input_sets = _number(int, f"a whole number from 1 to {MAX_INPUT_SETS}", 1, MAX_INPUT_SETS)
rounds = _number(int, "a whole number of at least 2", 2)  # one process pair tells nothing of the spread between pairs
