"""Texts from outside made safe to print: no control characters, no more cells than there is room for."""

from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

from opduel.records.text import escape
from opduel.records.text import printable as printable

_ELLIPSIS = "..."
_INDENT = "  "
_BREAK_AFTER = " /,;:._-)]}|"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable_lines(text: str) -> str:
    """The same where lines stay lines: nothing is left that XML 1.0 forbids, either."""
    return "\n".join(map(printable, text.splitlines()))


def short_line(text: str, longest: int) -> str:
    """``text`` printable, on one line of at most ``longest`` characters (3 or more); its end is what is cut."""
    line = printable(" ".join(text[: 4 * longest].split()))
    return line if len(line) <= longest else f"{line[: longest - len(_ELLIPSIS)]}{_ELLIPSIS}"


def escaped(text: str) -> str:
    r"""``text`` as one field of a tab-separated line: tab, newline, return and backslash as \t, \n, \r and \\."""
    return "".join(_ESCAPES.get(char) or (char if char.isprintable() else escape(char)) for char in text)


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells (3 or more): the middle is left out, as the ends tell most."""
    if cell_len(text) <= width:
        return text
    room = width - len(_ELLIPSIS)
    head = _start(text, room - room // 2)
    tail = _start(text[::-1], room // 2)[::-1]
    return head + _ELLIPSIS + tail


def fold(text: str, width: int) -> list[str]:
    """``text`` as lines of at most ``width`` cells (2 or more), broken after punctuation where there is some."""
    lines = []
    while cell_len(text) > width:
        head = chop_cells(text, width)[0]
        cut = 1 + max(head.rfind(mark) for mark in _BREAK_AFTER)
        if cut <= len(head) // 2:
            cut = len(head)
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*lines, text]


def folded_names(names: Sequence[str], width: int, lines: int) -> dict[str, list[str]]:
    """Each name as at most ``lines`` lines of ``width`` cells, all but the first indented.

    Longer names lose their middle. Names that would then look alike are given whole, however many lines that takes.
    """
    whole = {name: _indented(printable(name), width) for name in names}
    shown = {name: _indented(printable(name), width, lines) for name in names}
    times = Counter(map(tuple, shown.values()))
    return {name: rows if times[tuple(rows)] == 1 else whole[name] for name, rows in shown.items()}


def _indented(text: str, width: int, lines: int | None = None) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    room = width - len(_INDENT)
    pieces = fold(text, room)
    if lines is not None and len(pieces) > lines:
        # One cell a line is left over: a wide character may not fit into it.
        pieces = chop_cells(shorten(text, lines * (room - 1)), room)
    return [pieces[0], *(_INDENT + piece for piece in pieces[1:])]


def _start(text: str, width: int) -> str:
    return chop_cells(text, width)[0] if width > 0 and text else ""
