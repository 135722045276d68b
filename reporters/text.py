"""Texts from outside made safe to print: without control characters, and in limited width."""

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

from opduel.support.text import escape
from opduel.support.text import printable as printable

_ELLIPSIS = "..."
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
    return _start(text, room - room // 2) + _ELLIPSIS + _start(text[::-1], room // 2)[::-1]


def fold(text: str, width: int) -> list[str]:
    """Return ``text`` as lines of at most ``width`` cells. A longer word, such as a path or a case's id, stays in one
    piece, so that it can be copied, and its line is longer."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) > width:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def align(rows: Sequence[Sequence[str]], left_columns: int = 1) -> list[str]:
    """Return rows of cells as lines, with the first ``left_columns`` columns aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [*["<"] * left_columns, *[">"] * (len(widths) - left_columns)]
    layout = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [layout.format(*row).rstrip() for row in rows]


def _start(text: str, width: int) -> str:
    return chop_cells(text, width)[0] if width > 0 and text else ""
