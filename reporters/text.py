"""Texts from outside made safe to print: without control characters, and in limited width."""

from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

from opduel.support.text import escape
from opduel.support.text import printable as printable

_ELLIPSIS = "..."
_INDENT = "  "
_BREAK_AFTER = "/,;:._-)]}|"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def short_line(text: str, longest: int) -> str:
    """Return ``text`` printable, on one line, cut to at most ``longest`` characters (3 or more)."""
    line = printable(" ".join(text[: 4 * longest].split()))
    return line if len(line) <= longest else f"{line[: longest - len(_ELLIPSIS)]}{_ELLIPSIS}"


def escaped(text: str) -> str:
    r"""Return ``text`` as one field of a tab-separated line: tab, newline, return and backslash as \t, \n, \r and
    \\."""
    return "".join(_ESCAPES.get(char) or (char if char.isprintable() else escape(char)) for char in text)


def shorten(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` cells (3 or more), with its middle left out."""
    if cell_len(text) <= width:
        return text
    room = width - len(_ELLIPSIS)
    head = _start(text, room - room // 2)
    tail = _start(text[::-1], room // 2)[::-1]
    return head + _ELLIPSIS + tail


def fold(text: str, width: int) -> list[str]:
    """Return ``text`` as lines of at most ``width`` cells (2 or more), broken at a space if possible, or else after
    punctuation."""
    lines = []
    while cell_len(text) > width:
        head = chop_cells(text, width)[0]
        cut = 1 + head.rfind(" ")
        if cut <= len(head) // 2:
            cut = 1 + max(head.rfind(mark) for mark in _BREAK_AFTER)
        if cut <= len(head) // 2:
            cut = len(head)
        lines.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*lines, text]


def align(rows: Sequence[Sequence[str]], left_columns: int = 1) -> list[str]:
    """Return rows of cells as lines, with the first ``left_columns`` columns aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [*["<"] * left_columns, *[">"] * (len(widths) - left_columns)]
    layout = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [layout.format(*row).rstrip() for row in rows]


def folded_names(names: Sequence[str], width: int, lines: int) -> dict[str, list[str]]:
    """Return each name as at most ``lines`` lines of ``width`` cells, all but the first indented.

    Longer names lose their middle. Names that would then look alike are complete, however many lines that takes.
    """
    full_by_name = {name: _indented(printable(name), width) for name in names}
    lines_by_name = {name: _indented(printable(name), width, lines) for name in names}
    times = Counter(map(tuple, lines_by_name.values()))
    return {name: rows if times[tuple(rows)] == 1 else full_by_name[name] for name, rows in lines_by_name.items()}


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
