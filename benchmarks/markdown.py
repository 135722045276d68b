"""Tables and rates in Markdown, as the pages have them."""

from collections.abc import Iterable, Sequence

from opduel.comparator.calibration import Rate


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]


def rate_text(rate: Rate) -> str:
    """Return ``3 of 40 (1.6 to 20.4 %)``, or nothing if there is nothing to count."""
    low, high = rate.interval
    return f"{rate.count} of {rate.of} ({100 * low:.1f} to {100 * high:.1f} %)" if rate.of else ""
