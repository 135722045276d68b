"""Numbers for people: times, changes, shares, sizes. None and numbers that are not finite are shown as "-"."""

import math

ABSENT = "-"
_SCALES = {
    "ns": ((1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")),
    "instructions": ((1.0, "instr"), (1e3, "k instr"), (1e6, "M instr"), (1e9, "G instr")),
    "bytes": tuple((1024.0**power, name) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))),
}


def human_value(value: float | None, unit: str) -> str:
    """Return ``value`` with three digits: nanoseconds up to s, instructions up to G, bytes up to TiB, other units as
    they are."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if unit == "bytes":
        return human_size(value)
    if unit not in _SCALES:
        return f"{_plain(value)} {unit}".rstrip()
    scale, name = next((entry for entry in _SCALES[unit] if abs(value) / entry[0] < 999.5), _SCALES[unit][-1])
    return f"{_three_digits(value / scale)} {name}"


def scale_of(value: float | None, unit: str) -> tuple[float, str]:
    """Return the divisor and the unit for showing values of about this size: ``(1000.0, "us")``."""
    size = abs(value) if value is not None and math.isfinite(value) else 0.0
    scales = _SCALES.get(unit, ((1.0, unit),))
    return max((scale for scale in scales if scale[0] <= size), default=scales[0])


def human_change(ratio: float | None) -> str:
    """Return a ratio as a signed change, ``+5.3 %``; from eleven-fold on as a factor, ``x12.3``, or just ``>x999``."""
    change = _change(ratio)
    return f"{change} %" if change[0] in "+-" and change != ABSENT else change


def human_changes(ratio: float | None, interval: tuple[float, float] | None) -> tuple[str, str]:
    """Return a ratio and its interval as changes, ``+5.3 %`` and ``[+4.1, +6.4]``, or all three as factors."""
    as_factors = any("x" in _change(number) for number in (ratio, *(interval or ())))
    change = human_change(ratio) if ratio is None or not as_factors else _factor(ratio)
    limits = [_factor(end) if as_factors else _change(end) for end in interval or ()]
    return change, f"[{', '.join(limits)}]" if limits else ABSENT


def human_interval(interval: tuple[float, float] | None) -> str:
    """Return an interval of ratios as changes in %, ``[+4.1, +6.4]``, or as factors, ``[x10.3, x13.8]``."""
    return human_changes(None, interval)[1]


def human_values(before: float | None, after: float | None, unit: str) -> str:
    """Return ``0 -> 3``, or ``0 B -> 4 KiB``: with units where these depend on the size."""
    values = [human_value(value, unit) for value in (before, after)]
    return " -> ".join(values if unit in _SCALES else [value.removesuffix(f" {unit}") for value in values])


def human_share(share: float | None) -> str:
    """Return a share, 0.021, as ``2.1 %``."""
    if share is None or not math.isfinite(share):
        return ABSENT
    if 0 < share < 0.00995:
        return f"{share * 100:.2g} %" if share >= 0.0001 else "<0.01 %"
    return f"{share * 100:.1f} %" if share < 10 else ">999 %"


def human_size(size: float | None) -> str:
    """Return bytes as ``23.5 GiB``."""
    if size is None or not math.isfinite(size):
        return ABSENT
    scale, name = scale_of(max(size, 0.0), "bytes")
    number = size / scale
    return f"{number:.0f} {name}" if number >= 999.5 else f"{number:.3g} {name}"


def _change(ratio: float | None) -> str:
    if ratio is None or not math.isfinite(ratio):
        return ABSENT
    percent = round((ratio - 1) * 100, 1) + 0.0  # + 0.0: no "-0.0"
    return f"{percent:+.1f}" if percent < 1000 else _factor(ratio)


def _factor(ratio: float) -> str:
    if not math.isfinite(ratio):
        return ABSENT
    return f"x{ratio:.3g}" if ratio < 999.5 else ">x999"


def _plain(value: float) -> str:
    return f"{value:.0f}" if 999.5 <= abs(value) < 1e6 else f"{value:.3g}"


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 1e4:
        return f"{value:.3g}"
    decimals = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:.{decimals}f}"
