"""The change of a case in words: as a ratio, or from one value to the other where there is none."""

from opduel.records import Comparison, Verification
from opduel.reporters.units import ABSENT, human_changes, human_values

Change = Comparison | Verification  # whose figures of a change have the same names


def change_and_interval(change: Change, unit: str) -> tuple[str, str]:
    """Return ``+5.3 %`` and ``[+4.1, +6.4]``, or ``0 -> 3`` and ``by +3``, for values in ``unit``."""
    if change.difference is None:
        return human_changes(change.ratio, change.ci)
    ends = [f"{end + 0.0:+.3g}" for end in change.difference_ci or ()]
    interval = " to ".join(dict.fromkeys(ends))
    return human_values(change.control, change.treatment, unit), f"by {interval}" if interval else ABSENT


def change_text(change: Change, unit: str) -> str:
    """Return ``+5.3 %`` or ``0 -> 3``."""
    return change_and_interval(change, unit)[0]


def effect_text(change: Change, unit: str) -> str:
    """Return ``+5.3 % [+4.1, +6.4]`` or ``0 -> 3 by +3``."""
    return " ".join(change_and_interval(change, unit))
