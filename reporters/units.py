"""Numbers as people read them: times, changes, shares, sizes. What is None or not finite reads "-"."""

import math

ABSENT = "-"
_TIMES = ((1.0, "ns"), (1e3, "us"), (1e6, "ms"))
_COUNTS = ((1e3, ""), (1e6, "k "), (1e9, "M "), (float("inf"), "G "))  # up to a size below the first, its prefix
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_SCALES = {
    "ns": (*_TIMES, (1e9, "s")),
    "instructions": tuple((min(size / 1e3, 1e9), f"{prefix}instr") for size, prefix in _COUNTS),
    "bytes": tuple((1024.0**power, name) for power, name in enumerate(_SIZES)),
}


def human_value(value: float | None, unit: str) -> str:
    """``value`` to three digits: nanoseconds up to s, instructions up to G, bytes up to TiB, another unit as it is."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if unit == "bytes":
        return human_size(value)
    if unit == "instructions":
        size, prefix = next((size, prefix) for size, prefix in _COUNTS if abs(value) < 0.9995 * size)
        return f"{_three_digits(value / min(size / 1e3, 1e9))} {prefix}instr"
    if unit != "ns":
        return f"{value:.3g} {unit}"
    for scale, name in _TIMES:
        if abs(value) / scale < 999.5:
            return f"{_three_digits(value / scale)} {name}"
    return f"{_three_digits(value / 1e9)} s"


def scale_of(value: float | None, unit: str) -> tuple[float, str]:
    """What to divide values of about this size by for showing them, and their unit then: ``(1000.0, "us")``."""
    size = abs(value) if value is not None and math.isfinite(value) else 0.0
    scales = _SCALES.get(unit, ((1.0, unit),))
    return max((scale for scale in scales if scale[0] <= size), default=scales[0])


def human_change(ratio: float | None) -> str:
    """A ratio as a signed change, ``+5.3 %``; as a factor from eleven-fold on, ``x12.3``, or just ``>x999``."""
    change = _change(ratio)
    return f"{change} %" if change[0] in "+-" and change != ABSENT else change


def human_interval(interval: tuple[float, float] | None) -> str:
    """An interval of ratios as changes in %, ``[+4.1, +6.4]``."""
    if interval is None:
        return ABSENT
    return f"[{_change(interval[0])}, {_change(interval[1])}]"


def human_share(share: float | None) -> str:
    """A share, 0.021, as ``2.1 %``."""
    if share is None or not math.isfinite(share):
        return ABSENT
    return f"{share * 100:.1f} %" if share < 10 else ">999 %"


def human_size(size: float | None) -> str:
    """Bytes as ``23.5 GiB``."""
    if size is None or not math.isfinite(size):
        return ABSENT
    power = 0
    while size >= 1024 and power < len(_SIZES) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.3g} {_SIZES[power]}"


def human_duration(seconds: float | None) -> str:
    """Seconds as ``3 min 12 s``."""
    if seconds is None or not math.isfinite(seconds):
        return ABSENT
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{seconds:.3g} s"


def _change(ratio: float | None) -> str:
    if ratio is None or not math.isfinite(ratio):
        return ABSENT
    percent = round((ratio - 1) * 100, 1) + 0.0  # + 0.0: no "-0.0"
    if percent < 1000:
        return f"{percent:+.1f}"
    return f"x{ratio:.3g}" if ratio < 999.5 else ">x999"


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 1e4:
        return f"{value:.3g}"
    decimals = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:.{decimals}f}"
