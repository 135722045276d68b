"""Texts for people: safe to print, on one line, and no longer than anybody reads."""

import math
import re
import reprlib
from collections.abc import Sequence
from difflib import get_close_matches

LONGEST_LINE = 1000  # characters of an error
LONGEST_WORD = 300  # of one word of an error: a path, or a pasted argument
LONGEST_QUOTE = 80  # of an argument that is quoted in an error
LONGEST_VALUE = 40  # of a value that is quoted in an error
_ELLIPSIS = "..."
_ROUGH_NUMBERS = (1, 2, 3, 5, 8, 12, 20, 30, 45)  # of minutes and hours that may be wrong by a factor of 1.5
_LONG_QUOTE = re.compile(rf"(?<!\w)(['\"])((?:(?!\1).){{{2 * LONGEST_QUOTE},}})\1(?!\w)")
# Escape sequences of a terminal (ECMA-48), each as a whole: CSI (colours, cursor), strings such as OSC (titles, links),
# and the short ones. A control character by itself, ESC included, comes last: it would leave a sequence's rest.
_CONTROLS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_REPR = reprlib.Repr()  # it stops early: an error may quote a whole document
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 3 * LONGEST_VALUE
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = LONGEST_VALUE // 2
_REPR.maxlevel = 3
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 case``, ``2 cases``."""
    return f"{count:d} {noun}" if count == 1 else f"{count:d} {noun}s"


def listed(words: Sequence[str], most: int = 5, separator: str = ", ", more: str = "more") -> str:
    """Return the first ``most`` of the words, and how many more there are: ``a, b and 3 more``."""
    named = separator.join(words[:most])
    return f"{named} and {len(words) - most} {more}" if len(words) > most else named


def duration(seconds: float | None) -> str:
    """Return seconds as ``0.25 s``, ``3 min 12 s`` or ``1 h 2 min``; ``-`` if they are unknown."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if round(seconds) < 60:
        return f"{seconds:.3g} s"
    minutes, odd_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    amounts = ((hours, "h"), (minutes, "min"), (0 if hours else odd_seconds, "s"))
    return " ".join(f"{amount} {unit}" for amount, unit in amounts if amount)


def rough_duration(seconds: float) -> str:
    """Return an expected time in words no more exact than it is: ``about 3 min`` for 200 s."""
    if seconds < 60:
        return "less than a minute"
    if seconds >= 48 * 3600:
        return "days"
    unit, unit_s = ("min", 60.0) if seconds < 3000 else ("h", 3600.0)
    return f"about {min(_ROUGH_NUMBERS, key=lambda number: abs(math.log(number * unit_s / seconds)))} {unit}"


def printable(text: str) -> str:
    """Return ``text`` with all characters escaped that could move a cursor, colour a terminal or fail to encode."""
    return text if text.isprintable() else "".join(char if char.isprintable() else escape(char) for char in text)


def printable_lines(text: str) -> str:
    """Return ``text`` printable, line by line; nothing is left that XML 1.0 forbids, either."""
    return "\n".join(map(printable, text.splitlines()))


def without_controls(text: str) -> str:
    """Return ``text`` without escape sequences and control characters; tabs and line feeds stay."""
    return _CONTROLS.sub("", text)


def escape(char: str) -> str:
    """Return one character as an escape: ``\\x1b``."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clipped(text: str, longest: int) -> str:
    """Return ``text`` in at most ``longest`` characters (5 or more), with its middle left out."""
    if len(text) <= longest:
        return text
    room = longest - len(_ELLIPSIS)
    return f"{text[: room - room // 2]}{_ELLIPSIS}{text[len(text) - room // 2 :]}"


def show(value: object) -> str:
    """Return a value as it is quoted in an error: short, on one line."""
    text = _REPR.repr(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - len(_ELLIPSIS)] + _ELLIPSIS


def one_line(text: str) -> str:
    """Return ``text`` on one printable line of at most ``LONGEST_LINE`` characters, long quotations and words
    clipped."""
    line = " ".join(text.splitlines())
    line = _LONG_QUOTE.sub(lambda match: match[1] + clipped(match[2], LONGEST_QUOTE) + match[1], line)
    return clipped(printable(with_short_words(line)), LONGEST_LINE)


def with_short_words(text: str) -> str:
    """Return ``text`` with very long words clipped."""
    return _LONG_WORD.sub(lambda word: clipped(word[0], LONGEST_QUOTE), text)


def nearest(name: str, names: Sequence[str]) -> str:
    """Return what to say of a name that is none of these: which is like it, or how the first one looks."""
    close = get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"the first of {len(names)} is {names[0]}"
