"""The change of a case in words: as a ratio, or from one value to the other where there is none."""

from typing import Protocol

from opduel.reporters.units import ABSENT, human_changes, human_values


class Change(Protocol):
    """The figures of a change, such as those of a ``Comparison``."""

    @property
    def ratio(self) -> float | None: ...

    @property
    def ci(self) -> tuple[float, float] | None: ...

    @property
    def difference(self) -> float | None: ...

    @property
    def difference_ci(self) -> tuple[float, float] | None: ...

    @property
    def control(self) -> float | None: ...

    @property
    def treatment(self) -> float | None: ...


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
